// A trace as named columns with units and descriptions: what every sink writes. The format is
// described in lib/trace/README.md; describe() is the one place that defines it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lib/trace/trace_data.hpp"

namespace zeropp::trace {

inline constexpr const char* schema_name = "zeropp-trace";
inline constexpr const char* schema_version = "1.7";

struct Attribute {
  std::string name;
  std::variant<std::string, std::uint64_t, double> value;
};

struct Column {
  std::string name;
  std::string units;
  std::string description;
  std::variant<std::vector<double>, std::vector<std::uint64_t>, std::vector<std::string>> values;

  [[nodiscard]] std::size_t size() const;
};

struct Group {
  std::string name;  ///< "steps"
  std::vector<Attribute> attributes;
  std::vector<Column> columns;  ///< of equal length
};

struct Document {
  /// Without the digest and `complete`, which a sink writes last.
  std::vector<Attribute> attributes;
  std::vector<Group> groups;
};

/// Contents of the trace of every program: root attributes, /env, /ranks, and /gpus on the back end
/// cuda.
Document describe_run(const TraceData& trace);

/// The token source of a training run, as the group `name`.
Group describe_data(const std::string& name, const DataInfo& data);

/// The whole trace of the trainer.
Document describe(const TraceData& trace);

}  // namespace zeropp::trace

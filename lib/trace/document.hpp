// A trace as named columns with units and descriptions: what every sink writes. The format is
// described in lib/trace/README.md; describe() is the one place that defines it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
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

/// The column of `rows` that `project` (a member or a function) reads: real numbers, unsigned
/// integers or text.
template <class Rows, class Project>
Column column(const char* name, const char* units, const char* description, const Rows& rows,
              Project project) {
  using Value = std::decay_t<std::invoke_result_t<Project, const typename Rows::value_type&>>;
  using Stored = std::conditional_t<
      std::is_floating_point_v<Value>, double,
      std::conditional_t<std::is_convertible_v<Value, std::string>, std::string, std::uint64_t>>;
  std::vector<Stored> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(static_cast<Stored>(std::invoke(project, row)));
  return {name, units, description, std::move(values)};
}

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

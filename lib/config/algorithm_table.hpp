// Times of collectives as zpp_sweep measured them on a machine (its JSON, schema zeropp-sweep):
// what `auto` chooses algorithms by where a table is given. Only rows that were measured in full
// and found right count.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zeropp::config {

class AlgorithmTable {
 public:
  /// Conditions that a table holds for.
  struct MeasuredOn {
    std::size_t world_size = 0;
    std::size_t ranks_per_node = 0;
    std::string backend;
    std::string transport;
    std::size_t pipeline_depth = 1;
    std::string copy_engines = "off";

    /// "2 x 2 ranks on cuda over nccl, pipeline depth 1, copy engines"
    [[nodiscard]] std::string describe() const;
    bool operator==(const MeasuredOn&) const = default;
  };

  /// Throws Error(io) for a file that cannot be read, Error(usage) for one that is no sweep's, or
  /// one of operations that were started together or as a graph, as no run starts them.
  static AlgorithmTable read(const std::filesystem::path& path);

  /// Throws Error(usage) where it was measured somewhere else.
  void require_made_on(const MeasuredOn& place) const;

  struct Question {
    std::string collective;  ///< "all_gather", "reduce_scatter"
    std::string codec;       ///< "none", "int8:256"
    std::string group;       ///< "world", "node"
    std::string type;        ///< as nccl-tests names it: "bfloat16"
    std::size_t bytes = 0;   ///< as nccl-tests counts a collective's size
  };
  /// The candidate that takes the least time. Throws Error(usage), with the flags that would
  /// measure it, where the table has none of them.
  [[nodiscard]] std::string fastest(const Question& question,
                                    const std::vector<std::string>& candidates) const;
  /// Microseconds: interpolated linearly between the two nearest sizes, scaled with the size above
  /// the largest, and that of the smallest size below it. NaN: not in the table.
  [[nodiscard]] double time(const Question& question, std::string_view algorithm) const;

 private:
  struct Row {
    Question measured;
    std::string algorithm;
    double microseconds;
  };
  std::string name_;  ///< the file, for messages
  MeasuredOn place_;
  std::vector<Row> rows_;  ///< by size
};

}  // namespace zeropp::config

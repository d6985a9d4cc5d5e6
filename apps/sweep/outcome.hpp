// All that a sweep found.
#pragma once

#include <string>
#include <vector>

#include "apps/sweep/results.hpp"

namespace zeropp::sweep {

/// Finding of a check of one rank, as one line.
struct Finding {
  std::size_t rank;
  std::string text;
};

struct Outcome {
  std::vector<Row> rows;
  std::vector<Finding> findings;  ///< on rank 0
  std::string ended;              ///< why it ended before its last row; empty: it ran whole

  /// Wrong values of all rows.
  [[nodiscard]] std::uint64_t out_of_bounds() const;
  /// GB/s, the mean over rows and both columns, as nccl-tests'.
  [[nodiscard]] double average_bus_bandwidth() const;
  /// Measurements that are INVALID.
  [[nodiscard]] std::size_t invalid() const;
  /// "VALID", or "INVALID: reason": a measurement, or that it ended early.
  [[nodiscard]] std::string verdict() const;
  /// The first line of each rank.
  [[nodiscard]] std::vector<std::string> first_findings() const;
};

}  // namespace zeropp::sweep

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

/// A collective by one codec and algorithm on one group.
struct WayBandwidth {
  std::string collective;
  std::string codec;
  std::string algorithm;
  std::string group;
  double mean = 0;  ///< GB/s, over rows and both columns, as nccl-tests'
};

struct Outcome {
  std::vector<Row> rows;
  std::vector<Finding> findings;  ///< on rank 0
  std::string ended;              ///< why it ended before its last row; empty: it ran whole

  /// Wrong values of all rows.
  [[nodiscard]] std::uint64_t out_of_bounds() const;
  /// Mean bus bandwidth of each way in which a collective ran, in the order of the rows.
  [[nodiscard]] std::vector<WayBandwidth> bus_bandwidths() const;
  /// Measurements that are INVALID.
  [[nodiscard]] std::size_t invalid() const;
  /// "VALID", or "INVALID: reason": a measurement, or that it ended early.
  [[nodiscard]] std::string verdict() const;
  /// The first line of each rank.
  [[nodiscard]] std::vector<std::string> first_findings() const;
};

}  // namespace zeropp::sweep

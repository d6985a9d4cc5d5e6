// All that a sweep found.
#pragma once

#include <string>
#include <vector>

#include "apps/sweep/results.hpp"

namespace zeropp::sweep {

struct Outcome {
  std::vector<Row> rows;
  std::vector<std::string> errors;  ///< one line for each rank and check that found something

  /// Wrong values of all rows.
  [[nodiscard]] std::uint64_t out_of_bounds() const;
  /// GB/s, the mean over rows and both columns, as nccl-tests'.
  [[nodiscard]] double average_bus_bandwidth() const;
  /// "VALID", or "INVALID: reason".
  [[nodiscard]] std::string verdict() const;
};

}  // namespace zeropp::sweep

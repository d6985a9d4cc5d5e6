// Measures and checks one row, out of place and in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/sweep/collective.hpp"
#include "apps/sweep/operation.hpp"
#include "apps/sweep/outcome.hpp"
#include "apps/sweep/timing.hpp"

namespace zeropp::sweep {

/// Choice of the time of several ranks that the column shows (nccl-tests' -a).
enum class OverRanks : std::uint8_t { rank_0, average, minimum, maximum };

struct BenchOptions {
  Repetition repetition;
  OverRanks over_ranks = OverRanks::maximum;
  std::size_t checks = 1;  ///< runs with other data beside the timed ones; 0: nothing is checked
  std::size_t check_maximum_bytes = 0;  ///< rows of more are not checked; 0: no limit
  std::uint64_t seed = 1;
  double link_peak = 0;  ///< GB/s; 0: unknown
};

/// Fills all of `row` but its names and ratios. `findings` gets, on rank 0, what each rank found
/// wrong in each check. Collective over the world.
void bench(const SweepContext& sweep, const BenchOptions& options, const Collective& collective,
           const Shape& shape, const Variant& variant, Row& row, std::vector<Finding>& findings);

}  // namespace zeropp::sweep

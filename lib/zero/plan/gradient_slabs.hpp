// Memory of gradient shards where units are updated during backward (Options::update_in_backward):
// a shard lives from its reduction to its update, so that units take turns in a few slabs. Pure:
// the engine makes the memory, the schedule the waiting, a planner counts the bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

/// While kReductionsInFlight reductions write into their slabs, updates read the one before.
inline constexpr std::size_t kGradientSlabs = kReductionsInFlight + 1;

struct GradientSlabs {
  /// Where a unit's gradient shard lies.
  struct Place {
    std::size_t turn = 0;    ///< in the slab turn % kGradientSlabs, after the units of turns before
    std::size_t offset = 0;  ///< elements from the slab's begin
  };
  std::vector<Place> places;  ///< by unit; empty: gradient shards stay where they are
  std::size_t elements = 0;   ///< of one slab
  std::size_t slabs = 0;      ///< as many as there are turns, if those are fewer

  [[nodiscard]] bool enabled() const { return !places.empty(); }
  /// Bytes of all slabs, in fp32.
  [[nodiscard]] std::size_t bytes() const { return slabs * elements * sizeof(float); }
};

/// Slabs of units that are reduced in the order of `buckets`. A slab has room for the largest
/// bucket's units, which then lie in two turns at most: what was reduced before the reductions in
/// flight is three turns back, and can be updated. Units that need no more memory than three slabs
/// have one slab together.
GradientSlabs plan_gradient_slabs(const std::vector<UnitPartition>& units,
                                  const std::vector<Bucket>& buckets);

}  // namespace zeropp::zero

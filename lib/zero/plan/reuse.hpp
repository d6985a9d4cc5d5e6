// Choice of the gathered units that are kept until their next use instead of being gathered again
// (stage3_max_reuse_distance). A pure function of the order of uses, as DeepSpeed's rule is:
// prefetch changes nothing of it.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

/// One use of weights: a layer in forward or backward of a micro-step.
struct Use {
  std::size_t layer;
  std::size_t micro_step;
  bool backward;
};

/// Uses of a training step, in order.
std::vector<Use> uses_of_step(std::size_t layers, std::size_t micro_steps);

/// Reuse of a unit in one use.
struct Reuse {
  bool is_there = false;  ///< kept since the use before
  bool stays = false;     ///< kept for the use after
};

/// Reuse of units, by use, in order, and place in its layer. A unit stays where the uses between
/// this one and its next have fewer elements than input.reuse_elements, and it and what else is
/// kept then have at most input.max_live_elements. Persistent units are not counted.
std::vector<std::vector<Reuse>> plan_reuse(const ScheduleInput& input,
                                           const std::vector<Use>& uses);

}  // namespace zeropp::zero

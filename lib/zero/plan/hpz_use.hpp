// Whether hpZ does what it is for, which a schedule shows: the gathers after the first one of a
// step are from the secondary copy, and stay inside nodes. A pure function.
#pragma once

#include <cstddef>
#include <string>

#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/step_plan.hpp"

namespace zeropp::zero {

/// Warning of a secondary copy that nothing is gathered from, because limits of stage 3 keep all
/// weights, or whose groups cross nodes: the keys and the remedy, in one line. Empty: neither, or
/// hpZ is off. `options` are resolved, for nodes of `ranks_per_node`, and `plan` is made of them.
std::string hpz_warning(const Options& options, const StepPlan& plan, std::size_t ranks_per_node);

}  // namespace zeropp::zero

// Whether hpZ and weight differences do what they are for, which a schedule shows: gathers of a
// step are from the secondary copy, and stay inside nodes. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/step_plan.hpp"

namespace zeropp::zero {

/// Whether a schedule gathers weights from secondary copies.
bool gathers_secondary(const Schedule& schedule);

/// Warning of a secondary copy that nothing is gathered from, because limits of stage 3 keep all
/// weights, or whose groups cross nodes: the keys and the remedy, in one line. Empty: neither, or
/// there is no secondary copy. `options` are resolved, for nodes of `ranks_per_node`, and `plan` is
/// made of them.
std::string hpz_warning(const Options& options, const StepPlan& plan, std::size_t ranks_per_node);

}  // namespace zeropp::zero

// What weight differences need of a configuration and of the ranks.
#pragma once

#include "lib/config/resolve.hpp"

namespace zeropp::config {

/// Throws Error(usage) where `config`, whose hpZ size is resolved, asks for weight differences that
/// cannot be on `machine`, of which the numbers of ranks and nodes are read. Defined beside
/// resolve(), which calls it.
void check_weight_differences(const TrainConfig& config, const Machine& machine);

}  // namespace zeropp::config

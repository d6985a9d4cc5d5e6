// Options of offloading: what lies in the memory of the host or in files, and what of it works with
// what.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Adds the options to `table`, bound to `config`, which outlives it.
void add_offload(std::vector<Option>& table, TrainConfig& config);

/// Gives a sub-group without a size the usual one. Throws Error(usage) for files without a place,
/// and for parameters that cannot be offloaded.
void resolve_offload(TrainConfig& config);

}  // namespace zeropp::config

// Options of offloading: what lies in the memory of the host or in files, and what of it works with
// what.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Adds the options to `table`, bound to `config`, which outlives it.
void add_offload(std::vector<Option>& table, TrainConfig& config);

/// Throws Error(usage) for files without a place, and for parameters that cannot be offloaded.
void check_offload(const TrainConfig& config);

}  // namespace zeropp::config

// Options of checkpoints: which ones a run writes, and which one it goes on from.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Adds the options to `table`, bound to `config`, which outlives it.
void add_checkpoint(std::vector<Option>& table, TrainConfig& config);

}  // namespace zeropp::config

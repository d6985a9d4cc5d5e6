// The option table of the trainer.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Every option, bound to `config`, which outlives the table.
std::vector<Option> options(TrainConfig& config);

}  // namespace zeropp::config

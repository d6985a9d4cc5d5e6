// The option table of the trainer.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Every option, bound to `config`, which outlives the table.
std::vector<Option> options(TrainConfig& config);

/// Parts of it, each a file: add the options to `table`.
void add_checkpoint(std::vector<Option>& table, TrainConfig& config);
void add_model(std::vector<Option>& table, TrainConfig& config);
void add_data(std::vector<Option>& table, TrainConfig& config);

}  // namespace zeropp::config

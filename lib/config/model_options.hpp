// Options of the model and of the data that it is trained on.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Add the options to `table`, bound to `config`, which outlives it.
void add_model(std::vector<Option>& table, TrainConfig& config);
void add_data(std::vector<Option>& table, TrainConfig& config);

}  // namespace zeropp::config

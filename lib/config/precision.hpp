// Options of precision: what weights and gradients are computed and sent in, fp32, bf16 and fp16
// with its loss scale; and which of them cannot be together.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Adds the options to `table`, bound to `config`, which outlives it.
void add_precision(std::vector<Option>& table, TrainConfig& config);

/// Throws Error(usage).
void check_precision(const TrainConfig& config);

}  // namespace zeropp::config

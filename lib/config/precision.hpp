// Options of precision: what weights and gradients are computed and sent in, fp32, bf16 and fp16
// with its loss scale; and which of them cannot be together.
#pragma once

#include <string>
#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Adds the options to `table`, bound to `config`, which outlives it.
void add_precision(std::vector<Option>& table, TrainConfig& config);

/// Whether a file leaves the precision to others, with "auto" for bf16.enabled or fp16.enabled, and
/// nothing else turns one of them on. The precision is fp32 then.
bool is_precision_open(const std::vector<Option>& options);

/// Line that says so, with the remedy; empty where is_precision_open() is false.
std::string open_precision_line(const std::vector<Option>& options);

/// Throws Error(usage).
void check_precision(const TrainConfig& config);

}  // namespace zeropp::config

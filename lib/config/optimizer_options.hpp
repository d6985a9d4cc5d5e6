// Options of the optimizer and of its learning rate's schedule, and what of them cannot be
// together.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Adds the options to `table`, bound to `config`, which outlives it.
void add_optimizer(std::vector<Option>& table, TrainConfig& config);

/// Gives the schedule the rates that are not given, as DeepSpeed does, and the optimizer the
/// highest of a schedule that has its own. Throws Error(usage): two that differ, and no
/// total_num_steps where the schedule reads it.
void resolve_schedule(TrainConfig& config, const std::vector<Option>& given);

/// Throws Error(usage) for moments that cannot be kept so where the optimizer is offloaded to.
void check_moments(const TrainConfig& config);

/// Makes AdamW of an Adam that decays weights as AdamW does: of a file's, unless it says otherwise.
void resolve_adam(TrainConfig& config, const std::vector<Option>& given);

/// Makes weight decay that of all parameters, as DeepSpeed's is, where a file says how much of it
/// there is and nothing says of which parameters.
void resolve_decay(TrainConfig& config, const std::vector<Option>& given);

}  // namespace zeropp::config

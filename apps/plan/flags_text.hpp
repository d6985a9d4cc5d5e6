// A configuration as the flags that give it.
#pragma once

#include <string>
#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::plan_app {

/// Flags, with blanks between, for the options of how ranks share a model and exchange it, and of
/// the batch, that have an effect in `config`, are not as they are by default, and are not among
/// those `given`. `config` is resolved. `sent_alone`: for the options of what is sharded and sent
/// alone, also given ones.
std::string flags_text(const config::TrainConfig& config, const std::vector<config::Option>& given,
                       bool sent_alone = false);

/// Flags of those `given` that have no effect in `config`, and are refused with it.
std::vector<std::string> idle_flags(const config::TrainConfig& config,
                                    const std::vector<config::Option>& given);

}  // namespace zeropp::plan_app

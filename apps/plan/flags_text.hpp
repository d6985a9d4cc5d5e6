// A configuration as the flags that give it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::plan_app {

/// Paths of what decides how ranks share a model and exchange it, and of the batch; those of the
/// sizes of a model.
extern const std::vector<std::string_view> kSharingPaths;
extern const std::vector<std::string_view> kModelPaths;

/// Flags, with blanks between, for the options of `paths` that have an effect in `config`, are not
/// as they are by default, and are not among those `given`. `config` is resolved.
std::string flags_text(const config::TrainConfig& config,
                       const std::vector<std::string_view>& paths,
                       const std::vector<config::Option>& given = {});

/// Flags of those `given` that have no effect in `config`, and are refused with it.
std::vector<std::string> idle_flags(const config::TrainConfig& config,
                                    const std::vector<config::Option>& given);

}  // namespace zeropp::plan_app

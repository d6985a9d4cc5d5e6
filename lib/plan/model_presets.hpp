// GPTs that are known by a name: the shapes of the GPT-3 paper (arXiv 2005.14165, table 2.1), two
// of GPT-2, and two that reports about ZeRO++ use. Pure values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/model/options.hpp"

namespace zeropp::plan {

struct ModelPreset {
  std::string_view name;
  model::Options model;
};

/// From small to large.
const std::vector<ModelPreset>& model_presets();
std::vector<std::string> model_preset_names();
/// Throws Error(usage) for a name that is none of them.
const model::Options& model_preset(std::string_view name);

}  // namespace zeropp::plan

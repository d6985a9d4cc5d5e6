#include "lib/plan/model_presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace zeropp::plan {

namespace {

constexpr std::size_t kVocabulary = 50257;  ///< of GPT-2's tokenizer, which GPT-3 has too

ModelPreset preset(std::string_view name, std::size_t layers, std::size_t hidden, std::size_t heads,
                   std::size_t tokens) {
  model::Options model;
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_attention_heads = heads;
  model.seq_length = tokens;
  model.vocab_size = kVocabulary;
  return {name, model};
}

}  // namespace

const std::vector<ModelPreset>& model_presets() {
  // The table of GPT-3 gives 1.3 B 24 heads of size 128, which a width of 2048 does not have: 16.
  // It gives 13 B a width of 5140, which its 40 heads do not divide: 5120.
  static const std::vector<ModelPreset> all{
      preset("gpt2-124m", 12, 768, 12, 1024), preset("gpt2-1.5b", 48, 1600, 25, 1024),
      preset("gpt-125m", 12, 768, 12, 2048),  preset("gpt-350m", 24, 1024, 16, 2048),
      preset("gpt-760m", 24, 1536, 16, 2048), preset("gpt-1.3b", 24, 2048, 16, 2048),
      preset("gpt-2.7b", 32, 2560, 32, 2048), preset("gpt-7b", 32, 4096, 32, 2048),
      preset("gpt-13b", 40, 5120, 40, 2048),  preset("gpt-18b", 40, 6144, 48, 2048),
      preset("gpt-70b", 80, 8192, 64, 2048),  preset("gpt-175b", 96, 12288, 96, 2048),
  };
  return all;
}

std::vector<std::string> model_preset_names() {
  std::vector<std::string> names;
  for (const ModelPreset& each : model_presets()) names.emplace_back(each.name);
  return names;
}

const model::Options& model_preset(std::string_view name) {
  const auto found = std::ranges::find(model_presets(), name, &ModelPreset::name);
  if (found != model_presets().end()) return found->model;
  throw Error(ExitCode::usage, fmt::format("no preset \"{}\": choose {}", name,
                                           fmt::join(model_preset_names(), ", ")));
}

}  // namespace zeropp::plan

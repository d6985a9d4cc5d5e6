#include "apps/plan/flags_text.hpp"

#include <array>

#include "lib/config/effects.hpp"
#include "lib/config/options.hpp"

namespace zeropp::plan_app {

namespace {

/// Options of what is sharded and sent, and of how.
constexpr std::array kSent{"zero_optimization.stage",
                           "zeropp.shard_group_size",
                           "zero_optimization.zero_quantized_weights",
                           "zeropp.weight_codec",
                           "zeropp.weight_differences",
                           "zeropp.exact_differences",
                           "zeropp.weight_difference_codec",
                           "zero_optimization.zero_hpz_partition_size",
                           "zero_optimization.zero_quantized_gradients",
                           "zeropp.gradient_codec_intra",
                           "zeropp.gradient_codec_inter"};
constexpr std::array kOthers{"zeropp.all_gather_algorithm", "zeropp.reduce_scatter_algorithm",
                             "zeropp.model.recompute_activations", "train_micro_batch_size_per_gpu",
                             "gradient_accumulation_steps"};

}  // namespace

std::string flags_text(const config::TrainConfig& config, const std::vector<config::Option>& given,
                       bool sent_alone) {
  config::TrainConfig own = config;
  config::TrainConfig defaults;
  std::vector<config::Option> options = config::options(own);
  std::vector<config::Option> before = config::options(defaults);
  std::string text;
  const auto add = [&](const char* path) {
    const config::Option& option = config::option_at(options, path);
    if (option.in_effect && !option.in_effect()) return;
    if (!sent_alone && config::is_given(given, path)) return;
    const nlohmann::json value = config::value_of(option);
    if (value == config::value_of(config::option_at(before, path))) return;
    if (!text.empty()) text += ' ';
    if (value.is_boolean()) {
      text += value.get<bool>() ? option.flag : "--no-" + option.flag.substr(2);
    } else {
      text += option.flag + ' ' + (value.is_string() ? value.get<std::string>() : value.dump());
    }
  };
  for (const char* const path : kSent) add(path);
  if (sent_alone) return text;
  for (const char* const path : kOthers) add(path);
  return text;
}

std::vector<std::string> idle_flags(const config::TrainConfig& config,
                                    const std::vector<config::Option>& given) {
  config::TrainConfig own = config;
  std::vector<std::string> flags;
  for (config::Option& option : config::options(own)) {
    option.given = config::is_given(given, option.path);
    if (config::is_without_effect(option)) flags.push_back(option.flag);
  }
  return flags;
}

}  // namespace zeropp::plan_app

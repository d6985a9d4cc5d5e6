#include "lib/config/codec_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/codec_schedule.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

using zero::CodecEntry;

/// Refuses an entry that no step would follow.
void check_entry(const TrainConfig& c, const CodecEntry& entry, const std::string& where) {
  if (entry.from_step >= c.train_steps) {
    refuse(
        "{}.from_step: {} never comes, the run has {} steps: leave the entry out, or raise "
        "zeropp.train_steps",
        where, entry.from_step, c.train_steps);
  }
  const auto check = [&](bool named, const char* key, bool quantized, zero::AdaptedValues values) {
    if (!named) return;
    if (!quantized) {
      refuse("{}.{} would have no effect: it needs zero_optimization.zero_quantized_{}", where, key,
             enum_name(values));
    }
    if (c.zero.adaptive_bits.values == values) {
      refuse(
          "{}.{} would have no effect: zeropp.adaptive_bits chooses the codecs of {}; leave one "
          "of them out",
          where, key, enum_name(values));
    }
  };
  check(entry.weight_codec.has_value(), "weight_codec", c.zero.quantized_weights,
        zero::AdaptedValues::weights);
  if (entry.weight_codec && c.zero.stage < 3) {
    refuse(
        "{}.weight_codec needs zero_optimization.stage 3, not {}: below it, weights of a step are "
        "gathered in the step before, when its codecs are not in force; leave it out",
        where, c.zero.stage);
  }
  check(entry.gradient_codec_intra.has_value(), "gradient_codec_intra", c.zero.quantized_gradients,
        zero::AdaptedValues::gradients);
  check(entry.gradient_codec_inter.has_value(), "gradient_codec_inter", c.zero.quantized_gradients,
        zero::AdaptedValues::gradients);
}

void take_one_hop(CodecEntry& entry, const std::string& algorithm, const std::string& where) {
  if (entry.gradient_codec_inter && entry.gradient_codec_inter != entry.gradient_codec_intra) {
    refuse(
        "{}.gradient_codec_inter has no effect with zeropp.reduce_scatter_algorithm {}, which "
        "has one hop: leave it out, or choose 2-hop",
        where, algorithm);
  }
  entry.gradient_codec_inter = entry.gradient_codec_intra;
}

void check_adaptive(const TrainConfig& c) {
  const zero::AdaptiveBitsOptions& adaptive = c.zero.adaptive_bits;
  if (adaptive.values == zero::AdaptedValues::none) return;
  const bool weights = adaptive.values == zero::AdaptedValues::weights;
  if (!(weights ? c.zero.quantized_weights : c.zero.quantized_gradients)) {
    refuse(
        "zeropp.adaptive_bits.values {} would have no effect: it needs "
        "zero_optimization.zero_quantized_{}",
        enum_name(adaptive.values), enum_name(adaptive.values));
  }
  if (weights && c.zero.stage < 3) {
    refuse(
        "zeropp.adaptive_bits.values weights needs zero_optimization.stage 3, not {}: choose "
        "gradients, or leave it out",
        c.zero.stage);
  }
  if (adaptive.minimum_bits > adaptive.maximum_bits) {
    refuse("zeropp.adaptive_bits.minimum_bits {} is above maximum_bits {}: lower it, or raise that",
           adaptive.minimum_bits, adaptive.maximum_bits);
  }
  try {
    (void)codec::validated({fmt::format("int{}", adaptive.minimum_bits), adaptive.block, {}});
  } catch (const std::invalid_argument& error) {
    refuse("zeropp.adaptive_bits.block: {}", error.what());
  }
}

}  // namespace

std::vector<Option> codec_choice_options(TrainConfig& c) {
  const auto compresses = [&c] { return c.zero.quantized_weights || c.zero.quantized_gradients; };
  const char* const compression =
      "zero_optimization.zero_quantized_weights or zero_quantized_gradients";
  const auto adaptive = [&c, compresses] {
    return compresses() && c.zero.adaptive_bits.values != zero::AdaptedValues::none;
  };
  const char* const adaptive_needs = "zeropp.adaptive_bits.values";
  const auto fixed = [&c](zero::AdaptedValues values) {
    return c.zero.adaptive_bits.values != values;
  };
  const auto fixed_weights = [&c, fixed] {
    return c.zero.quantized_weights && fixed(zero::AdaptedValues::weights);
  };
  const auto fixed_gradients = [&c, fixed] {
    return c.zero.quantized_gradients && fixed(zero::AdaptedValues::gradients);
  };
  const char* const gradient_codecs_need =
      "zero_optimization.zero_quantized_gradients, and other zeropp.adaptive_bits.values than "
      "gradients";
  const auto lacks = [fixed](bool quantized, zero::AdaptedValues values) {
    std::vector<std::string> missing;
    if (!quantized) {
      missing.push_back(fmt::format("zero_optimization.zero_quantized_{}", enum_name(values)));
    }
    if (!fixed(values)) {
      missing.push_back(
          fmt::format("other zeropp.adaptive_bits.values than {}", enum_name(values)));
    }
    return fmt::format("{}", fmt::join(missing, ", and "));
  };
  const auto gradient_codecs_lack = [&c, lacks] {
    return lacks(c.zero.quantized_gradients, zero::AdaptedValues::gradients);
  };
  const auto weight_codecs_lack = [&c, lacks] {
    return lacks(c.zero.quantized_weights, zero::AdaptedValues::weights);
  };
  const auto images = [&c] {
    const zero::Options& zero = c.zero;
    const auto encodes = [](const codec::CodecSpec& spec) { return spec != codec::CodecSpec{}; };
    const bool some_codec = encodes(zero.weight_codec) ||
                            zero.adaptive_bits.values == zero::AdaptedValues::weights ||
                            std::ranges::any_of(zero.codec_schedule, [&](const CodecEntry& entry) {
                              return entry.weight_codec && encodes(*entry.weight_codec);
                            });
    return zero.gathers_device_masters() && some_codec;
  };
  const auto differences = [&c] { return c.zero.weight_differences.enabled; };
  const auto lossy_differences = [&c] {
    return c.zero.weight_differences.enabled && !c.zero.weight_differences.exact;
  };
  const char* const differences_need = "zeropp.weight_differences";
  const char* const lossy_differences_need =
      "zeropp.weight_differences, without zeropp.exact_differences";
  const char* const weight_codecs_need =
      "zero_optimization.zero_quantized_weights, and other zeropp.adaptive_bits.values than "
      "weights";
  return {
      {.path = "zeropp.weight_codec",
       .flag = "--weight-codec",
       .field = &c.zero.weight_codec,
       .help = "Wire format of qwZ's gather; with weight differences, of whole weights",
       .in_effect = fixed_weights,
       .effect_needs = weight_codecs_need,
       .effect_lacks = weight_codecs_lack},
      {.path = "zeropp.keep_weight_images",
       .flag = "--keep-weight-images",
       .field = &c.zero.keep_weight_images,
       .help = "Keep what qwZ's gathers at stage 3 send of a rank's shard from one update to the "
               "next; it is encoded once a step, where the weights are updated, and no gather of "
               "the step encodes it again, for the memory of the encoded shard; other stages "
               "gather a shard once a step, and have no use for it",
       .in_effect = images,
       .effect_needs = "zero_optimization.stage 3 with zero_optimization.zero_quantized_weights in "
                       "another codec than none, without zeropp.weight_differences, "
                       "zero_optimization.offload_optimizer and offload_param"},
      {.path = "zeropp.gradient_codec_intra",
       .flag = "--gradient-codec-intra",
       .field = &c.zero.gradient_codec_intra,
       .help = "Wire format of qgZ inside a node; of algorithms with one hop too",
       .in_effect = fixed_gradients,
       .effect_needs = gradient_codecs_need,
       .effect_lacks = gradient_codecs_lack},
      {.path = "zeropp.gradient_codec_inter",
       .flag = "--gradient-codec-inter",
       .field = &c.zero.gradient_codec_inter,
       .help = "Wire format of qgZ across nodes",
       .in_effect = fixed_gradients,
       .effect_needs = gradient_codecs_need,
       .effect_lacks = gradient_codecs_lack},
      {.path = "zeropp.weight_differences",
       .flag = "--weight-differences",
       .field = &c.zero.weight_differences.enabled,
       .help =
           "Send how weights differ from a copy: at stage 3, with hpZ over the ranks of a "
           "node, across nodes from the copy that every node holds; at stages 1 and 2 from the "
           "weights that every rank holds; whole weights go first, in weight_codec (with qwZ), or "
           "uncompressed (with exact_differences)",
       .in_effect = [&c,
                     fixed_weights] { return fixed_weights() || c.zero.weight_differences.exact; },
       .effect_needs = "zero_optimization.zero_quantized_weights, and other "
                       "zeropp.adaptive_bits.values than weights, or zeropp.exact_differences",
       .effect_lacks =
           [weight_codecs_lack] { return weight_codecs_lack() + ", or zeropp.exact_differences"; }},
      {.path = "zeropp.exact_differences",
       .flag = "--exact-differences",
       .field = &c.zero.weight_differences.exact,
       .help = "Send weight differences without loss, in as few bits as the 16-bit weights of a "
               "step differ in; parameters have the bits of a run without qwZ, which at stage "
               "3 has hpZ",
       .in_effect = differences,
       .effect_needs = differences_need},
      {.path = "zeropp.exact_planned_bits",
       .flag = "--exact-planned-bits",
       .field = &c.zero.weight_differences.planned_bits,
       .help = "Bits per weight that plans assume of exact differences; a run takes as many as its "
               "weights need; 0: what runs took at the learning rate, after their first steps",
       .unit = "bits",
       .range = between(0, 16)},
      {.path = "zeropp.weight_difference_codec",
       .flag = "--weight-difference-codec",
       .field = &c.zero.weight_differences.codec,
       .help = "Wire format of weight differences that lose something",
       .in_effect = lossy_differences,
       .effect_needs = lossy_differences_need},
      {.path = "zeropp.weight_copy_dtype",
       .flag = "--weight-copy-dtype",
       .field = &c.zero.weight_differences.copy,
       .help =
           "Type of the copies that weight differences are added to; compute is the dtype that "
           "the model computes in, and rounds each sum; fp32 needs stage 3, or training in fp32",
       .in_effect = lossy_differences,
       .effect_needs = lossy_differences_need},
      {.path = "zeropp.weight_refresh_interval",
       .flag = "--weight-refresh-interval",
       .field = &c.zero.weight_differences.refresh_interval,
       .help = "Steps after which whole weights go to the copies again, in weight_codec; 0: never",
       .unit = "steps",
       .in_effect = differences,
       .effect_needs = differences_need},
      {.path = "zeropp.codec_schedule",
       .flag = "--codec-schedule",
       .field = codec_schedule_field(c.zero.codec_schedule),
       .help = "Codecs that hold from a step on, for some units or all; of several entries the "
               "last holds",
       .in_effect = compresses,
       .effect_needs = compression},
      {.path = "zeropp.adaptive_bits.values",
       .flag = "--adaptive-bits",
       .field = &c.zero.adaptive_bits.values,
       .help = "Give each unit's weights or gradients a width of their own, by measured errors, "
               "within a budget of bytes",
       .in_effect = compresses,
       .effect_needs = compression},
      {.path = "zeropp.adaptive_bits.minimum_bits",
       .flag = "--adaptive-bits-minimum",
       .field = &c.zero.adaptive_bits.minimum_bits,
       .help = "Narrowest width to choose",
       .unit = "bits",
       .range = between(2, 8),
       .in_effect = adaptive,
       .effect_needs = adaptive_needs},
      {.path = "zeropp.adaptive_bits.maximum_bits",
       .flag = "--adaptive-bits-maximum",
       .field = &c.zero.adaptive_bits.maximum_bits,
       .help = "Widest width to choose",
       .unit = "bits",
       .range = between(2, 8),
       .in_effect = adaptive,
       .effect_needs = adaptive_needs},
      {.path = "zeropp.adaptive_bits.block",
       .flag = "--adaptive-bits-block",
       .field = &c.zero.adaptive_bits.block,
       .help = "Values that share a scale, at every width",
       .unit = "values",
       .range = at_least(1),
       .in_effect = adaptive,
       .effect_needs = adaptive_needs},
      {.path = "zeropp.adaptive_bits.budget_codec",
       .flag = "--adaptive-bits-budget-codec",
       .field = &c.zero.adaptive_bits.budget_codec,
       .help = "Codec whose bytes for all units are the budget of a step",
       .in_effect = [&c, adaptive] { return adaptive() && c.zero.adaptive_bits.budget_bytes == 0; },
       .effect_needs = "zeropp.adaptive_bits.values, without zeropp.adaptive_bits.budget_bytes"},
      {.path = "zeropp.adaptive_bits.budget_bytes",
       .flag = "--adaptive-bits-budget-bytes",
       .field = &c.zero.adaptive_bits.budget_bytes,
       .help = "Most that all ranks together send of these values in a step; 0: what budget_codec "
               "would send",
       .unit = "bytes",
       .binary_suffix = true,
       .in_effect = adaptive,
       .effect_needs = adaptive_needs},
      {.path = "zeropp.adaptive_bits.interval",
       .flag = "--adaptive-bits-interval",
       .field = &c.zero.adaptive_bits.interval,
       .help = "Steps between choices of widths, the first of which comes after the first step; "
               "such steps take longer",
       .unit = "steps",
       .range = at_least(1),
       .in_effect = adaptive,
       .effect_needs = adaptive_needs}};
}

double exact_bits_at(double learning_rate) {
  // Learning rates, and bits that AdamW's steps took there after the first ones
  // (results/2x-NVIDIA-H200/exact-differences).
  constexpr std::array<std::pair<double, double>, 3> kMeasured{
      {{3e-5, 3.2}, {2e-4, 5.3}, {6e-4, 6.1}}};
  constexpr double fewest = 1;
  constexpr double most = 8;
  if (learning_rate <= 0) return fewest;
  const auto between = [&](const auto& low, const auto& high) {
    const double share = std::log(learning_rate / low.first) / std::log(high.first / low.first);
    const double bits = low.second + share * (high.second - low.second);
    return std::round(10 * std::clamp(bits, fewest, most)) / 10;
  };
  return learning_rate < kMeasured[1].first ? between(kMeasured[0], kMeasured[1])
                                            : between(kMeasured[1], kMeasured[2]);
}

void resolve_codec_choice(TrainConfig& config, bool second_hop) {
  check_adaptive(config);
  auto& schedule = config.zero.codec_schedule;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const std::string where = fmt::format("zeropp.codec_schedule[{}]", i);
    check_entry(config, schedule[i], where);
    if (!second_hop) take_one_hop(schedule[i], config.zero.reduce_scatter_algorithm, where);
  }
}

}  // namespace zeropp::config

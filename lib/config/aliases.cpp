#include "lib/config/aliases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;

const char* const kWeights = "zero_optimization.zero_quantized_weights";
const char* const kGradients = "zero_optimization.zero_quantized_gradients";
const char* const kHpz = "zero_optimization.zero_hpz_partition_size";
const char* const kFeedback = "zeropp.error_feedback.hops";
const char* const kShardGroup = "zeropp.shard_group_size";
const char* const kAllGather = "zeropp.all_gather_algorithm";

bool is_on(const std::vector<Option>& options, std::string_view path) {
  return value_of(option_at(options, path)) == json(true);
}

std::optional<json> value_of_name(const NamedValues& all, std::string_view path) {
  const auto found =
      std::ranges::find_if(all, [&](const auto& named) { return named.first->path == path; });
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

bool is_count(const json& value) { return value.is_number_unsigned() && value > 0; }

/// A name that means just what the option `of` does.
Alias same(const char* path, const char* of) {
  return {.path = path,
          .meaning = of,
          .settings = [of](const json& value, const NamedValues&, const std::vector<Option>&) {
            return std::vector<Setting>{{of, value}};
          }};
}

const char* const kOffload = "zero_optimization.offload_optimizer.device";
const char* const kOffloadParam = "zero_optimization.offload_param.device";
const char* const kPinned = "zero_optimization.offload_optimizer.pin_memory";

/// A device's old name; what is off leaves the new one to others.
template <const char* const& Path>
std::vector<Setting> cpu_offload(const json& value, const NamedValues&,
                                 const std::vector<Option>&) {
  if (!value.is_boolean()) return {};
  const bool on = value.get<bool>();
  return {{Path, on ? "cpu" : "none", !on}};
}

const char* const kCpuCheckpointing = "zeropp.model.cpu_checkpointing";

/// Setting of a switch; an option that is switched off may be without effect.
template <const char* const& Path>
std::vector<Setting> switched(const json& value, const NamedValues&, const std::vector<Option>&) {
  if (!value.is_boolean()) return {};
  return {{Path, value, !value.get<bool>()}};
}

/// DeepSpeed counts reset_T in reductions of tensors; here it is in steps.
std::vector<Setting> loco(const json& value, const NamedValues&, const std::vector<Option>&) {
  if (!value.is_object() || value.size() != 2 || !value.contains("err_beta") ||
      !value.contains("reset_T")) {
    return {};
  }
  return {{kFeedback, "both"},
          {"zeropp.error_feedback.beta", value["err_beta"]},
          {"zeropp.error_feedback.reset_period", value["reset_T"]}};
}

std::vector<Setting> error_feedback(const json& value, const NamedValues&,
                                    const std::vector<Option>&) {
  if (!value.is_boolean()) return {};
  const bool on = value.get<bool>();
  return {{kFeedback, on ? "both" : "none", !on}};
}

/// -1: no MiCS; what zeropp.shard_group_size says stays.
std::vector<Setting> mics(const json& value, const NamedValues&,
                          const std::vector<Option>& options) {
  if (value == -1) return {{kShardGroup, value_of(option_at(options, kShardGroup)), true}};
  if (!is_count(value)) return {};
  return {{kShardGroup, value}};
}

/// MiCS gathers across the nodes of a group first, and then inside each.
std::vector<Setting> mics_hierarchical(const json& value, const NamedValues&,
                                       const std::vector<Option>& options) {
  if (!value.is_boolean()) return {};
  if (value.get<bool>()) return {{kAllGather, "two-level"}};
  return {{kAllGather, value_of(option_at(options, kAllGather)), true}};
}

/// Setting of hpZ's group size by a switch: true goes with any size above 1, which another key may
/// name.
std::vector<Setting> hierarchical(const json& value, const NamedValues& all,
                                  const std::vector<Option>& options) {
  if (!value.is_boolean()) return {};
  if (!value.get<bool>()) return {{kHpz, 1}};
  const Option& hpz = option_at(options, kHpz);
  if (hpz.given && value_of(hpz) > 1) return {{kHpz, value_of(hpz)}};
  const auto size = value_of_name(all, "zeropp.secondary_group_size");
  return {{kHpz, size.value_or("auto")}};
}

constexpr std::size_t kWeightBlock = 256;
constexpr std::size_t kGradientBlock = 128;

std::string codec(const json& bits, const json& block) {
  return fmt::format("int{}:{}", bits.dump(), block.dump());
}

std::vector<Setting> weight_bits(const json& value, const NamedValues& all,
                                 const std::vector<Option>&) {
  if (!is_count(value)) return {};
  const json block = value_of_name(all, "zeropp.block_size").value_or(kWeightBlock);
  return {{"zeropp.weight_codec", codec(value, block)}};
}

std::vector<Setting> gradient_bits(const json& value, const NamedValues& all,
                                   const std::vector<Option>&) {
  if (!is_count(value)) return {};
  const json block = value_of_name(all, "zeropp.block_size").value_or(kGradientBlock);
  return {{"zeropp.gradient_codec_intra", codec(value, block)},
          {"zeropp.gradient_codec_inter", codec(value, block)}};
}

/// Setting of the block size of what is quantized; for the other values it waits for a flag that
/// quantizes them.
std::vector<Setting> block_size(const json& value, const NamedValues& all,
                                const std::vector<Option>& options) {
  if (!is_count(value)) return {};
  const bool weights = is_on(options, kWeights);
  const bool gradients = is_on(options, kGradients);
  const std::string of_weights =
      codec(value_of_name(all, "zeropp.weight_quantization_bits").value_or(8), value);
  const std::string of_gradients =
      codec(value_of_name(all, "zeropp.gradient_quantization_bits").value_or(4), value);
  return {{"zeropp.weight_codec", of_weights, gradients && !weights},
          {"zeropp.gradient_codec_intra", of_gradients, weights && !gradients},
          {"zeropp.gradient_codec_inter", of_gradients, weights && !gradients}};
}

void set(Option& option, const Setting& setting, const Alias& alias) {
  const bool given = option.given;
  const json before = value_of(option);
  set_from_json(option, setting.value, fmt::format("{} ({})", alias.path, option.path));
  if (given && (option.is_automatic || value_of(option) != before)) {
    refuse("{} is another name of {}, and says {} where that is {}: keep one of them", alias.path,
           option.path, setting.value.dump(), before.dump());
  }
  option.given = given || (option.given && !setting.quiet);
  if (!given) option.key = alias.path;
}

}  // namespace

const std::vector<Alias>& aliases() {
  const char* const count = "a whole number of at least 1";
  const char* const toggle = "true or false";
  // block_size and the partition read what names before them have set.
  static const std::vector<Alias> table{
      same("steps_per_print", "zeropp.log_interval"),
      {"zero_optimization.zeropp_loco_param",
       "zeropp.error_feedback in both hops; reset_T counts steps that were taken",
       "an object of err_beta and reset_T", loco},
      {"zero_optimization.mics_shard_size", kShardGroup, "-1, or a whole number of at least 1",
       mics},
      {"zero_optimization.mics_hierarchical_params_gather",
       "zeropp.all_gather_algorithm two-level; false: as that says", toggle, mics_hierarchical},
      {"zero_optimization.cpu_offload", "zero_optimization.offload_optimizer.device cpu, or none",
       toggle, cpu_offload<kOffload>},
      {"zero_optimization.cpu_offload_param", "zero_optimization.offload_param.device cpu, or none",
       toggle, cpu_offload<kOffloadParam>},
      {"zero_optimization.cpu_offload_use_pin_memory", kPinned, toggle, switched<kPinned>},
      same("zero_optimization.prefetch_bucket_size",
           "zero_optimization.stage3_prefetch_bucket_size"),
      same("zero_optimization.param_persistence_threshold",
           "zero_optimization.stage3_param_persistence_threshold"),
      same("zero_optimization.model_persistence_threshold",
           "zero_optimization.stage3_model_persistence_threshold"),
      same("zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters"),
      same("zero_optimization.max_reuse_distance", "zero_optimization.stage3_max_reuse_distance"),
      same("zero_optimization.gather_16bit_weights_on_model_save",
           "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
      same("zero_optimization.stage3_gather_fp16_weights_on_model_save",
           "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
      same("bfloat16.enabled", "bf16.enabled"),
      {"activation_checkpointing.cpu_checkpointing",
       "zeropp.model.cpu_checkpointing, of blocks that zeropp.model.recompute_activations has",
       toggle, switched<kCpuCheckpointing>},
      same("aio.intra_op_parallelism", "aio.thread_count"),
      same("zeropp.quantize_weights", kWeights),
      same("zeropp.quantize_gradients", kGradients),
      same("zeropp.secondary_group_size", kHpz),
      {"zeropp.hierarchical_partition",
       "zero_optimization.zero_hpz_partition_size: secondary_group_size, or the ranks of a node; "
       "false: 1",
       toggle, hierarchical},
      {"zeropp.weight_quantization_bits", "zeropp.weight_codec: intBITS:256, or block_size", count,
       weight_bits},
      {"zeropp.gradient_quantization_bits",
       "zeropp.gradient_codec_intra and _inter: intBITS:128, or block_size", count, gradient_bits},
      {"zeropp.block_size",
       "the block of zeropp.weight_codec and the gradient codecs, int8 and int4 without other bits",
       count, block_size},
      {"zeropp.use_error_feedback", "zeropp.error_feedback.hops both, or none", toggle,
       error_feedback}};
  return table;
}

const Alias* find_alias(std::string_view path) {
  const auto found = std::ranges::find(aliases(), path, &Alias::path);
  return found == aliases().end() ? nullptr : &*found;
}

void apply_alias(const Alias& alias, const json& value, const NamedValues& named,
                 std::vector<Option>& options) {
  const std::vector<Setting> settings = alias.settings(value, named, options);
  if (settings.empty()) refuse("{} must be {}, not {}", alias.path, alias.values, value.dump());
  for (const Setting& setting : settings) {
    set(*std::ranges::find(options, setting.path, &Option::path), setting, alias);
  }
}

}  // namespace zeropp::config

// ctest: name=config_keys_walk timeout=60 labels=sanitize
// The table of keys, walked: of a key that works two values give two effective configurations, a
// value that changes nothing is ignored, any other is refused with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lib/app/registries.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/topology.hpp"
#include "lib/config/aliases.hpp"
#include "lib/config/deepspeed_keys.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::config {
namespace {

using nlohmann::json;
using Ignores = DeepSpeedKey::Ignores;

/// Two values of a key, and what it needs beside it to be in effect.
struct Works {
  std::string key;
  std::string beside;
  std::string one;
  std::string other;
};

constexpr const char* kOffload = R"({"zero_optimization":{"offload_optimizer":{"device":"cpu"}}})";

constexpr const char* kFiles =
    R"({"zero_optimization":{"stage":3,"offload_optimizer":{"device":"nvme","nvme_path":"/x"},
                             "offload_param":{"device":"nvme","nvme_path":"/x"}}})";

std::vector<Works> works() {
  return {
      {"zero_optimization.stage", R"({})", R"(1)", R"(2)"},
      {"zero_optimization.zero_quantized_weights", R"({})", R"(true)", R"(false)"},
      {"zero_optimization.zero_hpz_partition_size", R"({})", R"(1)", R"(2)"},
      {"zero_optimization.zero_quantized_gradients", R"({})", R"(true)", R"(false)"},
      {"zero_optimization.reduce_bucket_size", R"({})", R"(500000000.0)", R"("auto")"},
      {"zero_optimization.stage3_prefetch_bucket_size",
       R"({"zero_optimization":{"overlap_comm":true}})", R"(1000)", R"("auto")"},
      {"zero_optimization.stage3_max_live_parameters",
       R"({"zero_optimization":{"overlap_comm":true}})", R"(1000000000.0)", R"(0)"},
      {"zero_optimization.stage3_max_reuse_distance", R"({})", R"(1000000000.0)", R"(0)"},
      {"zero_optimization.stage3_param_persistence_threshold", R"({})", R"(100000.0)", R"("auto")"},
      {"zero_optimization.stage3_model_persistence_threshold", R"({})", R"(1e6)", R"(0)"},
      {"zero_optimization.overlap_comm", R"({})", R"(true)", R"(false)"},
      {"zero_optimization.offload_optimizer.device", R"({})", R"("none")", R"("cpu")"},
      {"zero_optimization.offload_optimizer.nvme_path", kFiles, R"("/y")", R"("/z")"},
      {"zero_optimization.offload_optimizer.pin_memory", kOffload, R"(true)", R"(false)"},
      {"zero_optimization.offload_optimizer.buffer_count", kOffload, R"(1)", R"(5)"},
      {"zero_optimization.offload_optimizer.ratio", kOffload, R"(0.5)", R"(1.0)"},
      {"zero_optimization.offload_optimizer.pipeline_read", kFiles, R"(true)", R"(false)"},
      {"zero_optimization.offload_optimizer.pipeline_write", kFiles, R"(true)", R"(false)"},
      {"zero_optimization.sub_group_size", kOffload, R"(1000000000.0)", R"(1000)"},
      {"zero_optimization.offload_param.device", kOffload, R"("none")", R"("cpu")"},
      {"zero_optimization.offload_param.nvme_path", kFiles, R"("/y")", R"("/z")"},
      {"zero_optimization.offload_param.pin_memory",
       R"({"zero_optimization":{"cpu_offload":true,"offload_param":{"device":"cpu"}}})", R"(true)",
       R"(false)"},
      {"zero_optimization.offload_param.buffer_count", kFiles, R"(1)", R"(5)"},
      {"zero_optimization.offload_param.max_in_cpu", kFiles, R"(1000000000.0)", R"(0)"},
      {"aio.block_size", kFiles, R"(1048576)", R"(4096)"},
      {"aio.queue_depth", kFiles, R"(8)", R"(32)"},
      {"aio.thread_count", kFiles, R"(1)", R"(2)"},
      {"aio.single_submit", kFiles, R"(true)", R"(false)"},
      {"aio.overlap_events", kFiles, R"(true)", R"(false)"},
      {"bf16.enabled", R"({})", R"(true)", R"("auto")"},
      {"fp16.enabled", R"({})", R"(true)", R"("auto")"},
      {"fp16.loss_scale", R"({"fp16":{"enabled":true}})", R"(64)", R"(128)"},
      {"fp16.initial_scale_power", R"({"fp16":{"enabled":true}})", R"(8)", R"(9)"},
      {"fp16.loss_scale_window", R"({"fp16":{"enabled":true}})", R"(100)", R"(200)"},
      {"fp16.hysteresis", R"({"fp16":{"enabled":true}})", R"(1)", R"(3)"},
      {"fp16.consecutive_hysteresis", R"({"fp16":{"enabled":true}})", R"(true)", R"(false)"},
      {"fp16.min_loss_scale", R"({"fp16":{"enabled":true}})", R"(1)", R"(2)"},
      {"optimizer.type", R"({})", R"("AdamW")", R"("SGD")"},
      {"optimizer.params.lr", R"({})", R"(0.5)", R"("auto")"},
      {"optimizer.params.betas.0", R"({})", R"(0.8)", R"(0.7)"},
      {"optimizer.params.betas.1", R"({})", R"(0.8)", R"(0.7)"},
      {"optimizer.params.eps", R"({})", R"(1e-06)", R"("auto")"},
      {"optimizer.params.weight_decay", R"({})", R"(0.1)", R"("auto")"},
      {"optimizer.params.adam_w_mode", R"({"optimizer":{"type":"Adam"}})", R"(true)", R"(false)"},
      {"optimizer.params.momentum", R"({"optimizer":{"type":"SGD"}})", R"(0.9)", R"(0.8)"},
      {"optimizer.params.nesterov", R"({"optimizer":{"type":"SGD","params":{"momentum":0.9}}})",
       R"(true)", R"(false)"},
      {"gradient_clipping", R"({})", R"(1.0)", R"("auto")"},
      {"scheduler.type", R"({})", R"("constant")", R"("WarmupLR")"},
      {"scheduler.params.warmup_min_lr", R"({"scheduler":{"type":"WarmupLR","params":{}}})",
       R"(1e-05)", R"(0.0001)"},
      {"scheduler.params.warmup_max_lr",
       R"({"scheduler":{"type":"WarmupDecayLR","params":{"total_num_steps":9}}})", R"(0.25)",
       R"("auto")"},
      {"scheduler.params.warmup_num_steps", R"({"scheduler":{"type":"WarmupLR","params":{}}})",
       R"(7)", R"("auto")"},
      {"scheduler.params.warmup_type", R"({"scheduler":{"type":"WarmupLR","params":{}}})",
       R"("log")", R"("linear")"},
      {"scheduler.params.total_num_steps",
       R"({"scheduler":{"type":"WarmupDecayLR","params":{"total_num_steps":9}}})", R"(77)",
       R"("auto")"},
      {"scheduler.params.warmup_min_ratio",
       R"({"scheduler":{"type":"WarmupCosineLR","params":{"total_num_steps":9}}})", R"(0.1)",
       R"(0.2)"},
      {"scheduler.params.cos_min_ratio",
       R"({"scheduler":{"type":"WarmupCosineLR","params":{"total_num_steps":9}}})", R"(0.1)",
       R"(0.2)"},
      {"train_batch_size", R"({})", R"(4)", R"(8)"},
      {"train_micro_batch_size_per_gpu", R"({})", R"(4)", R"("auto")"},
      {"gradient_accumulation_steps", R"({})", R"(4)", R"("auto")"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save",
       R"({"zeropp":{"checkpoint":{"save":"kept"}}})", R"(true)", R"("auto")"},
      {"steps_per_print", R"({})", R"(2000)", R"(5)"},
      {"zero_optimization.zeropp_loco_param",
       R"({"zero_optimization":{"zero_quantized_weights":true,"zero_quantized_gradients":true}})",
       R"({"err_beta":0.8,"reset_T":1024})", R"({"err_beta":0.5,"reset_T":1024})"},
      {"zero_optimization.mics_shard_size", R"({})", R"(-1)", R"(2)"},
      {"zero_optimization.mics_hierarchical_params_gather",
       R"({"zero_optimization":{"mics_shard_size":2}})", R"(true)", R"(false)"},
      {"zero_optimization.cpu_offload", R"({})", R"(true)", R"(false)"},
      {"zero_optimization.cpu_offload_param", kOffload, R"(true)", R"(false)"},
      {"zero_optimization.cpu_offload_use_pin_memory", kOffload, R"(true)", R"(false)"},
      {"zero_optimization.prefetch_bucket_size", R"({"zero_optimization":{"overlap_comm":true}})",
       R"(1000)", R"("auto")"},
      {"zero_optimization.param_persistence_threshold", R"({})", R"(100000.0)", R"("auto")"},
      {"zero_optimization.model_persistence_threshold", R"({})", R"(1e6)", R"(0)"},
      {"zero_optimization.max_live_parameters", R"({"zero_optimization":{"overlap_comm":true}})",
       R"(1000000000.0)", R"(0)"},
      {"zero_optimization.max_reuse_distance", R"({})", R"(1000000000.0)", R"(0)"},
      {"zero_optimization.gather_16bit_weights_on_model_save",
       R"({"zeropp":{"checkpoint":{"save":"kept"}}})", R"(true)", R"("auto")"},
      {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
       R"({"zeropp":{"checkpoint":{"save":"kept"}}})", R"(true)", R"(false)"},
      {"bfloat16.enabled", R"({})", R"(true)", R"("auto")"},
      {"activation_checkpointing.cpu_checkpointing",
       R"({"zeropp":{"model":{"recompute_activations":true,"num_layers":3}}})", R"(true)",
       R"(false)"},
      {"aio.intra_op_parallelism", kFiles, R"(1)", R"(2)"},
      {"zeropp.quantize_weights", R"({})", R"(true)", R"(false)"},
      {"zeropp.quantize_gradients", R"({})", R"(true)", R"(false)"},
      {"zeropp.secondary_group_size", R"({})", R"(1)", R"(2)"},
      {"zeropp.hierarchical_partition", R"({})", R"(true)", R"(false)"},
      {"zeropp.weight_quantization_bits",
       R"({"zero_optimization":{"zero_quantized_weights":true,"zero_quantized_gradients":true}})",
       R"(6)", R"(4)"},
      {"zeropp.gradient_quantization_bits",
       R"({"zero_optimization":{"zero_quantized_weights":true,"zero_quantized_gradients":true}})",
       R"(6)", R"(4)"},
      {"zeropp.block_size",
       R"({"zero_optimization":{"zero_quantized_weights":true,"zero_quantized_gradients":true}})",
       R"(64)", R"(512)"},
      {"zeropp.use_error_feedback",
       R"({"zero_optimization":{"zero_quantized_weights":true,"zero_quantized_gradients":true}})",
       R"(true)", R"(false)"},
  };
}

/// `document` with the key; an element of a list, both of them.
json with_key(json document, std::string key, json value) {
  if (key.ends_with(".0") || key.ends_with(".1")) {
    value = key.ends_with("0") ? json{value, 0.9} : json{0.9, value};
    key.resize(key.size() - 2);
  }
  std::ranges::replace(key, '.', '/');
  document[json::json_pointer("/" + key)] = std::move(value);
  return document;
}

struct Read {
  std::vector<Ignored> ignored = {};
  std::string effective = {};
  std::string error = {};  ///< of a usage error
};

Read read(const json& document) {
  TrainConfig config;
  auto table = options(config);
  Read result;
  try {
    result.ignored = read_text(document.dump(), "x.json", table);
    resolve(config, table, app::machine_of(comm::declared_topology(4, 2)));
    result.effective = canonical_json(table);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    result.error = error.what();
  }
  return result;
}

TEST(ConfigKeys, TwoValuesOfWhatWorksAreTwoConfigurations) {
  std::vector<std::string> walked;
  for (const auto& [key, beside, one, other] : works()) {
    walked.push_back(key);
    const Read a = read(with_key(json::parse(beside), key, json::parse(one)));
    const Read b = read(with_key(json::parse(beside), key, json::parse(other)));
    EXPECT_EQ(a.error + b.error, "") << key;
    EXPECT_TRUE(a.ignored.empty() && b.ignored.empty()) << key;
    EXPECT_NE(a.effective, b.effective) << key;
  }
  TrainConfig config;
  std::vector<std::string> known;
  for (const Option& option : options(config)) {
    if (!option.path.starts_with("zeropp.")) known.push_back(option.path);
  }
  for (const Alias& alias : aliases()) known.push_back(alias.path);
  EXPECT_EQ(walked, known) << "give two values of every key that works";
}

/// Values of a key's type, and of others.
std::vector<json> values() {
  return {true, false, 3, 0, 2.5, "x", nullptr, json{{"enabled", true}}, json{{"enabled", false}}};
}

TEST(ConfigKeys, OthersAreIgnoredOrRefusedWithTheReason) {
  std::set<std::string> paths;
  std::size_t refused = 0;
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.why.empty()) << key.path;
    std::vector<json> tried = values();
    tried.insert(tried.end(), key.values.begin(), key.values.end());
    for (const json& value : tried) {
      const bool listed = std::ranges::find(key.values, value) != key.values.end();
      const bool off = value == false || value == json{{"enabled", false}};
      const bool passes = value.is_null() || key.ignores == Ignores::anything || listed ||
                          (key.ignores == Ignores::off && off);
      const Read result = read(with_key(json::object(), key.path, value));
      SCOPED_TRACE(key.path + " " + value.dump());
      if (passes) {
        EXPECT_EQ(result.error, "");
        const Ignored told{key.path, key.why};
        EXPECT_EQ(result.ignored, std::vector<Ignored>(value.is_null() ? 0 : 1, told));
        EXPECT_EQ(result.effective, read(json::object()).effective);
      } else {
        ++refused;
        const std::string shown = value.is_object() ? "" : " " + value.dump();
        EXPECT_THAT(result.error, testing::StartsWith("x.json: " + key.path + shown +
                                                      " is refused: " + key.why + "; "));
      }
    }
  }
  EXPECT_GT(paths.size(), 100U);
  EXPECT_GT(refused, 100U);
}

}  // namespace
}  // namespace zeropp::config

#include "apps/plan/recipe.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/codec/spec.hpp"

namespace zeropp::plan_app {

namespace {

bool is_hybrid(const zero::Options& zero) { return zero.shard_group_size != zero::kAllRanks; }
bool has_hpz(const zero::Options& zero) { return zero.hpz_partition_size > 1; }
bool has_differences(const zero::Options& zero) { return zero.weight_differences.enabled; }

std::string deepspeed_keys(const zero::Options& zero) {
  if (has_differences(zero) || (is_hybrid(zero) && zero.quantized_gradients)) return "";
  nlohmann::ordered_json keys{{"stage", zero.stage}};
  if (zero.quantized_weights) keys["zero_quantized_weights"] = true;
  if (has_hpz(zero)) keys["zero_hpz_partition_size"] = zero.hpz_partition_size;
  if (zero.quantized_gradients) keys["zero_quantized_gradients"] = true;
  if (is_hybrid(zero)) keys["mics_shard_size"] = zero.shard_group_size;
  std::string text = keys.dump();
  for (std::size_t at = 0; (at = text.find_first_of(":,", at)) != std::string::npos; at += 2) {
    text.insert(at + 1, " ");
  }
  return "\"zero_optimization\": " + text;
}

/// Name in torch of a dtype to compute in; empty where it is that of the weights.
std::string_view torch_dtype(Dtype compute) {
  if (compute == Dtype::bf16) return "bfloat16";
  return compute == Dtype::fp16 ? "float16" : "";
}

/// The call that compresses a model that fully_shard() wrapped; empty where nothing is compressed.
/// Differences need no hpZ there: a copy in each node serves both gathers.
std::string compress_call(const zero::Options& zero) {
  if (!zero.quantized_weights && !zero.quantized_gradients && !has_differences(zero)) return "";
  const zero::WeightDifferenceOptions& differences = zero.weight_differences;
  std::string weights = zero.quantized_weights ? to_string(zero.weight_codec) : "none";
  if (has_differences(zero) && differences.exact) weights = "exact";
  const std::string between = to_string(zero.gradient_codec_inter);
  const std::string inside = is_hybrid(zero) ? "none" : to_string(zero.gradient_codec_intra);
  const auto quoted = [](const std::string& codec) { return '"' + codec + '"'; };
  std::string gradients = quoted("none");
  if (zero.quantized_gradients) {
    gradients = inside == between ? quoted(between)
                                  : fmt::format("({}, {})", quoted(inside), quoted(between));
  }
  std::string call = fmt::format("zeropp.torch.compress(model, weights={}, gradients={}",
                                 quoted(weights), gradients);
  if (has_differences(zero) && !differences.exact) {
    call += fmt::format(", weight_differences={}", quoted(to_string(differences.codec)));
  }
  return call + ", transport=\"nccl\")";
}

}  // namespace

Recipe recipe_of(const config::TrainConfig& config, int nodes, int ranks_per_node) {
  const zero::Options& zero = config.zero;
  Recipe made;
  if (const std::string keys = deepspeed_keys(zero); !keys.empty()) made.deepspeed = {keys};
  if (zero.stage < 2) return made;
  const bool hybrid = is_hybrid(zero);
  const bool resharded_in_node = has_hpz(zero) && !has_differences(zero);
  const std::string call = compress_call(zero);
  if (hybrid) {
    made.fsdp2 = {
        fmt::format("mesh = init_device_mesh(\"cuda\", ({}, {}))", nodes, ranks_per_node)};
  }
  std::string reshard;
  if (zero.stage == 2) reshard = ", reshard_after_forward=False";
  if (resharded_in_node) {
    reshard = fmt::format(", reshard_after_forward={}", zero.hpz_partition_size);
  }
  const std::string_view dtype = torch_dtype(config::compute_dtype(config));
  if (!dtype.empty()) {
    made.fsdp2.push_back(fmt::format("policy = MixedPrecisionPolicy(param_dtype=torch.{})", dtype));
  }
  made.fsdp2.push_back(fmt::format("fully_shard(block, mesh=mesh{}{})  # blocks, then the model",
                                   dtype.empty() ? "" : ", mp_policy=policy", reshard));
  if (!call.empty()) made.fsdp2.insert(made.fsdp2.end(), {"import zeropp.torch", call});
  // These have no switch for a group of ranks after forward.
  if (resharded_in_node) return made;
  made.accelerate = {"fsdp_version: 2"};
  made.torchtitan = {"--parallelism.data_parallel_shard_degree -1"};
  if (hybrid) {
    made.accelerate = {
        fmt::format("fsdp_version: 2, parallelism_config_dp_replicate_size: {}, "
                    "parallelism_config_dp_shard_size: {}",
                    nodes, ranks_per_node)};
    made.torchtitan = {
        fmt::format("--parallelism.data_parallel_replicate_degree {} "
                    "--parallelism.data_parallel_shard_degree {}",
                    nodes, ranks_per_node)};
  }
  if (zero.stage == 2) {
    made.accelerate.front() += ", fsdp_reshard_after_forward: false";
    made.torchtitan.front() += " --parallelism.fsdp_reshard_after_forward never";
  }
  if (!call.empty()) {
    made.accelerate.front() += "; compress() after prepare()";
    made.torchtitan.front() += "; compress() in parallelize_fn";
  }
  return made;
}

}  // namespace zeropp::plan_app

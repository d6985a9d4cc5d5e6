#include "lib/config/resolve.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "lib/config/algorithm_choice.hpp"
#include "lib/config/back_end.hpp"
#include "lib/config/codec_choice.hpp"
#include "lib/config/effects.hpp"
#include "lib/config/offload_options.hpp"
#include "lib/config/optimizer_options.hpp"
#include "lib/config/precision.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {
namespace {

std::size_t product(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) {
    refuse("train_batch_size: {} * {} sequences overflow", a, b);
  }
  return a * b;
}

/// `train` sequences divided by `value` of `name` and by `world` ranks. Refuses a remainder.
std::size_t quotient(std::size_t train, const char* name, std::size_t value, std::size_t world) {
  const std::size_t divisor = product(value, world);
  const std::size_t whole = train / divisor;
  if (whole * divisor != train) {
    refuse("train_batch_size {} is not divisible by {} ({} {} * {} ranks): choose {}{}", train,
           divisor, name, value, world, whole == 0 ? "" : fmt::format("{} or ", whole * divisor),
           (whole + 1) * divisor);
  }
  return whole;
}

/// DeepSpeed's rule: train = micro * accumulation * world size; any two give the third.
void complete_batch(TrainConfig& c, std::size_t world) {
  std::size_t& train = c.train_batch_size;
  std::size_t& micro = c.train_micro_batch_size_per_gpu;
  std::size_t& steps = c.gradient_accumulation_steps;
  if (train == 0) {
    if (micro == 0) micro = 1;
    if (steps == 0) steps = 1;
    train = product(product(micro, steps), world);
  } else if (micro == 0) {
    if (steps == 0) steps = 1;
    micro = quotient(train, "gradient_accumulation_steps", steps, world);
  } else if (steps == 0) {
    steps = quotient(train, "train_micro_batch_size_per_gpu", micro, world);
  }
  if (product(product(micro, steps), world) != train) {
    refuse(
        "train_batch_size {} is not train_micro_batch_size_per_gpu {} * "
        "gradient_accumulation_steps {} * {} ranks: change one of them, or leave one out",
        train, micro, steps, world);
  }
  if (steps > kMostAccumulationSteps) {
    refuse(
        "gradient_accumulation_steps: {} follow from train_batch_size {}, more than {}: lower it, "
        "or raise train_micro_batch_size_per_gpu",
        steps, train, kMostAccumulationSteps);
  }
}

/// Refuses a model that no class of `transformers` is.
void check_gathered_weights(const TrainConfig& config) {
  const model::Options& model = config.model;
  if (!config.checkpoint.gather_weights || !model::is_transformer(model)) return;
  const char* const key = "zero_optimization.stage3_gather_16bit_weights_on_model_save";
  if (!model::is_llama(model) && (model::kv_heads(model) != model.num_attention_heads ||
                                  model::query_width(model) != model.hidden_size)) {
    refuse(
        "{} writes GPT-2's file, and GPT-2 has as many key-value heads as heads, which share the "
        "hidden size: leave out --num-key-value-heads and --head-dim, or {}",
        key, key);
  }
  if (model::is_llama(model) && !model.add_qkv_bias &&
      model.hidden_size % model.num_attention_heads != 0) {
    refuse(
        "{} writes Llama's file, and Llama in transformers takes a hidden size that its heads "
        "divide: change --hidden-size {} or --num-attention-heads {}, or leave {} out",
        key, model.hidden_size, model.num_attention_heads, key);
  }
}
void check_stage(const zero::Options& zero) {
  if (zero.stage < 1 && zero.quantized_weights) {
    refuse(
        "zero_optimization.zero_quantized_weights has no effect at zero_optimization.stage 0, "
        "where no weights are gathered: set the stage to 1, 2 or 3, or leave it out");
  }
  if (zero.stage < 3 && zero.hpz_partition_size != 1) {
    refuse(
        "zero_optimization.zero_hpz_partition_size has no effect at zero_optimization.stage {}, "
        "where every rank holds all weights: set the stage to 3, or leave it out",
        zero.stage);
  }
}

/// A unit that persists is gathered before the codecs of the step that uses it are known.
void check_persistence(const zero::Options& zero) {
  if (zero.stage < 3 || zero.persistence_threshold == 0 || !zero.quantized_weights) return;
  const char* key = "zero_optimization.stage3_param_persistence_threshold";
  const char* const remedy =
      "weight codecs that change come after the gather: leave one of them out";
  if (zero.adaptive_bits.values == zero::AdaptedValues::weights) {
    refuse("{} {} and zeropp.adaptive_bits: {}", key, zero.persistence_threshold, remedy);
  }
  for (const zero::CodecEntry& entry : zero.codec_schedule) {
    if (!entry.weight_codec) continue;
    refuse("{} {} and a weight_codec of zeropp.codec_schedule: {}", key, zero.persistence_threshold,
           remedy);
  }
}

/// Measurements of what encoding loses compare with fp32.
void check_gradient_dtype(const zero::Options& zero) {
  if (zero.gradient_dtype == Dtype::fp32) return;
  const auto refuse_with = [&](bool on, const char* other) {
    if (!on) return;
    refuse(
        "zeropp.gradient_dtype {} and {}, which measures gradients in fp32: leave one of them out",
        name_of(zero.gradient_dtype), other);
  };
  refuse_with(zero.measure_errors > 0, "zeropp.measure_quantization_error");
  refuse_with(zero.adaptive_bits.values == zero::AdaptedValues::gradients, "zeropp.adaptive_bits");
}

/// Refuses adaptive bits on one rank, which sends nothing: no width has more bytes than another.
void check_adaptive_bits(const zero::Options& zero, const Machine& machine) {
  if (zero.adaptive_bits.values == zero::AdaptedValues::none || machine.world_size > 1) return;
  refuse(
      "zeropp.adaptive_bits.values {} would have no effect on 1 rank, which sends nothing: start "
      "more ranks, or leave it out",
      enum_name(zero.adaptive_bits.values));
}

/// Groups of ranks that lie in nodes, or are nodes: of `least` ranks or more, of those that fit.
void check_group_size(const char* key, const char* flag, std::size_t size, std::size_t node,
                      std::size_t world, std::size_t least) {
  const auto fits = [&](std::size_t ranks) {
    return node % ranks == 0 || (ranks % node == 0 && world % ranks == 0);
  };
  if (fits(size)) return;
  std::vector<std::size_t> sizes;
  for (std::size_t ranks = std::min(least, world); ranks <= world;
       ranks += ranks < node ? 1 : node) {
    if (fits(ranks)) sizes.push_back(ranks);
  }
  refuse(
      "{}: {} has to divide the {} ranks of a node, or to be a multiple of them that divides all "
      "{} ranks: choose {} ({}){}",
      key, size, node, world, fmt::join(sizes, " or "), flag,
      size > 1 && world % size == 0
          ? fmt::format(", or make nodes of {} ranks with --node-size {}", size, size)
          : "");
}

void resolve_secondary(zero::Options& zero, const Machine& machine) {
  std::size_t& size = zero.hpz_partition_size;
  if (size == 1) return;
  const char* key = "zero_optimization.zero_hpz_partition_size";
  if (machine.ranks_per_node == 0) refuse("{} {}", key, kUnequalNodes);
  const auto node = static_cast<std::size_t>(machine.ranks_per_node);
  if (size == zero::kNodeOfRanks) size = node;
  const auto world = static_cast<std::size_t>(machine.world_size);
  check_group_size(key, "--zero-hpz-partition-size overrides it", size, node, world, 1);
}

/// Differences go from node to node, to a copy of the weights in every node.
void check_exchanged_differences(const zero::Options& zero, const Machine& machine) {
  const auto node = static_cast<std::size_t>(machine.ranks_per_node);
  if (machine.ranks_per_node == 0) refuse("zeropp.weight_differences {}", kUnequalNodes);
  if (machine.node_count == 1 && machine.world_size > 1) {
    refuse(
        "zeropp.weight_differences needs several nodes at stage 3, which it sends less between, "
        "and there is one, of {0} ranks: give more of them (zpp_train: --node-size below {0}, or "
        "more hosts; zpp_plan: --nodes above 1), choose stage 1 or 2, or leave it out",
        machine.world_size);
  }
  if (zero.hpz_partition_size != node) {
    refuse(
        "zeropp.weight_differences needs zero_optimization.zero_hpz_partition_size {} at stage 3, "
        "the ranks of a node: set that, or leave it out",
        node);
  }
}

/// Exact differences are of the bits of 16-bit weights, from a copy that has these bits.
void check_exact_differences(const zero::Options& zero, Dtype compute) {
  const char* const key = "zeropp.exact_differences";
  if (zero.stage < 1) {
    refuse("{} needs zero_optimization.stage 1 or higher: raise it, or leave the key out", key);
  }
  if (zero.quantized_weights) {
    refuse(
        "{} and zero_optimization.zero_quantized_weights, which loses what they keep: leave one of "
        "them out",
        key);
  }
  if (compute == Dtype::fp32) {
    refuse("{} needs weights of 16 bits: enable bf16 or fp16, or leave the key out", key);
  }
  if (zero.hpz_device == zero::HpzDevice::cpu) {
    refuse(
        "{} and zeropp.hpz_device cpu, whose copies would cross the link to the host twice more in "
        "each step: leave one of them out",
        key);
  }
  if (zero.offload_param.on_file()) {
    refuse(
        "{} and zero_optimization.offload_param.device nvme, whose files would be read twice in "
        "each step: choose cpu, or leave one of them out",
        key);
  }
}

void resolve_shard_groups(zero::Options& zero, const Machine& machine) {
  std::size_t& size = zero.shard_group_size;
  if (size == zero::kAllRanks) return;
  const char* key = "zeropp.shard_group_size";
  if (machine.ranks_per_node == 0) refuse("{} {}", key, kUnequalNodes);
  const auto node = static_cast<std::size_t>(machine.ranks_per_node);
  const auto world = static_cast<std::size_t>(machine.world_size);
  if (size == zero::kNodeOfShards) size = node;
  check_group_size(key, "--shard-group-size overrides it", size, node, world, 2);
  if (size == 1 && world > 1) {
    refuse(
        "{}: in a group of 1 rank every rank holds everything: set zero_optimization.stage to 0, "
        "or "
        "choose {}",
        key, node);
  }
  const auto refuse_with = [&](bool on, const char* other, const char* why) {
    if (on) refuse("{} {} and {}: {}; leave one of them out", key, size, other, why);
  };
  refuse_with(zero.hpz_partition_size != 1, "zero_optimization.zero_hpz_partition_size",
              "both keep all weights in a part of the ranks");
  refuse_with(zero.weight_differences.enabled, "zeropp.weight_differences",
              "both keep all weights in a part of the ranks");
  refuse_with(zero.adaptive_bits.values != zero::AdaptedValues::none, "zeropp.adaptive_bits",
              "the budget does not know of sums over shard groups");
  refuse_with(zero.measure_errors > 0, "zeropp.measure_quantization_error",
              "it does not know of sums over shard groups");
  if (size == world) size = zero::kAllRanks;
}

/// The back end and what moves its bytes.
void choose_backend(TrainConfig& c, const Machine& machine) {
  const bool model_on_gpu = model::is_transformer(c.model);
  if (c.backend == Backend::cuda && !model_on_gpu) {
    refuse("zeropp.model.name {} has no CUDA kernels: use --backend host", c.model.name);
  }
  choose_back_end(c.backend, c.transport, machine, "zeropp.transport", model_on_gpu);
}

/// Refuses autotuning without a GPU, and where the same bits are asked for: cuBLASLt's algorithms
/// differ in the order of their sums.
void check_autotuning(const TrainConfig& c) {
  if (!c.autotune_gemm) return;
  if (c.backend != Backend::cuda) {
    refuse(
        "zeropp.autotune_gemm would have no effect with --backend {}: use --backend cuda, or leave "
        "it out",
        enum_name(*c.backend));
  }
  if (c.zero.deterministic) {
    refuse(
        "zeropp.autotune_gemm chooses by measured times, which differ from run to run, and "
        "zeropp.deterministic asks for the same bits in every run: leave one of them out");
  }
}

/// Refuses a memory limit with adaptive bits: the memory of every other run is known before it
/// begins.
void check_memory_limit(const TrainConfig& c) {
  if (c.device_memory_limit == 0 || c.zero.adaptive_bits.values == zero::AdaptedValues::none)
    return;
  refuse(
      "zeropp.device_memory_limit is checked before the run, in which zeropp.adaptive_bits chooses "
      "widths: leave one of them out");
}

}  // namespace

void check_weight_differences(const TrainConfig& config, const Machine& machine) {
  const zero::Options& zero = config.zero;
  if (!zero.weight_differences.enabled) return;
  if (zero.exchanges_differences()) check_exchanged_differences(zero, machine);
  const Dtype compute = compute_dtype(config);
  if (zero.weight_differences.exact) check_exact_differences(zero, compute);
  if (zero.refreshes_differences() && zero.weight_differences.copy == zero::CopyDtype::fp32 &&
      compute != Dtype::fp32) {
    refuse(
        "zeropp.weight_copy_dtype fp32 at zero_optimization.stage {}, where differences are added "
        "to the weights that the model computes with, in {}: set the stage to 3, or leave it out",
        zero.stage, name_of(compute));
  }
}

void check_update_in_backward(const TrainConfig& c) {
  const zero::Options& zero = c.zero;
  if (!zero.update_in_backward) return;
  const auto refuse_with = [](bool on, const char* other, const char* why) {
    if (on) refuse("zeropp.update_in_backward and {}, {}: leave one of them out", other, why);
  };
  refuse_with(zero.stage < 2, "zero_optimization.stage below 2",
              "where the gradients of all units are kept whole");
  refuse_with(zero.gradient_clipping > 0, "gradient_clipping",
              "which needs the norm of all gradients before the first update");
  refuse_with(compute_dtype(c) == Dtype::fp16, "fp16.enabled",
              "which skips a step whose gradients overflow");
  refuse_with(c.gradient_accumulation_steps > 1, "gradient_accumulation_steps above 1",
              "which keeps the gradients of all units from micro-step to micro-step");
  refuse_with(zero.offload_optimizer.enabled(), "zero_optimization.offload_optimizer",
              "whose updates the host makes");
  refuse_with(zero.shard_group_size != zero::kAllRanks, "zeropp.shard_group_size",
              "which sums gradients over groups once a step");
  refuse_with(zero.measure_errors > 0, "zeropp.measure_quantization_error",
              "which reads the gradients of all units after the step");
}

void resolve(TrainConfig& config, const std::vector<Option>& given, const Machine& machine) {
  choose_automatic(given);
  check_effects(given);
  choose_backend(config, machine);
  check_effects(given);  // again: `auto` may have become a back end that leaves options idle
  check_autotuning(config);
  check_memory_limit(config);
  check_precision(config);
  check_stage(config.zero);
  check_gathered_weights(config);
  resolve_offload(config);
  check_moments(config);
  check_persistence(config.zero);
  check_gradient_dtype(config.zero);
  check_adaptive_bits(config.zero, machine);
  resolve_secondary(config.zero, machine);
  check_effects(given);  // again: the ranks of a node may be one, which has no hpZ
  check_weight_differences(config, machine);
  resolve_shard_groups(config.zero, machine);
  resolve_schedule(config, given);
  resolve_adam(config, given);
  resolve_decay(config, given);
  machine.check_model(config.model);
  machine.check_data(config.data);
  choose_algorithms(config, given, machine);
  complete_batch(config, static_cast<std::size_t>(machine.world_size));
  check_update_in_backward(config);
  double& bits = config.zero.weight_differences.planned_bits;
  if (bits == 0) bits = exact_bits_at(config.optimizer.learning_rate);
  config.zero.compute = compute_dtype(config);
  config.zero.accumulation_steps = config.gradient_accumulation_steps;
  config.zero.seed = config.seed;
  config.zero.shard_multiple = optim::moment_alignment(config.optimizer.moments);
}

}  // namespace zeropp::config

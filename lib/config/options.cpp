// JSON keys are DeepSpeed's where DeepSpeed has one, else in the `zeropp` object; flags are
// Megatron's where Megatron has one.
#include "lib/config/options.hpp"

#include <limits>
#include <string>
#include <utility>

#include "lib/config/back_end.hpp"
#include "lib/config/codec_choice.hpp"
#include "lib/config/offload_options.hpp"
#include "lib/config/optimizer_options.hpp"
#include "lib/config/precision.hpp"

namespace zeropp::config {
namespace {

/// Adds options of sharding: what is sharded among which ranks, in which codecs.
void add_sharding(std::vector<Option>& table, TrainConfig& c) {
  table.insert(
      table.end(),
      {{.path = "zero_optimization.stage",
        .flag = "--zero-stage",
        .field = &c.zero.stage,
        .help =
            "Stage of ZeRO: 0 shards nothing, 1 the optimizer, 2 gradients too, 3 parameters too",
        .range = between(0, 3)},
       {.path = "zero_optimization.zero_quantized_weights",
        .flag = "--zero-quantized-weights",
        .field = &c.zero.quantized_weights,
        .help = "qwZ: gather weights in weight_codec (stages 1 to 3)",
        .effect_needs = "zero_optimization.stage 1, 2 or 3",
        .ruled_out = [&c](const auto&) { return c.zero.stage < 1; }},
       {.path = "zero_optimization.zero_hpz_partition_size",
        .flag = "--zero-hpz-partition-size",
        .field = &c.zero.hpz_partition_size,
        .help = "hpZ: ranks with one secondary copy of all weights (stage 3); 1 is off, auto: the "
                "ranks of a node",
        .unit = "ranks",
        .range = at_least(1),
        .effect_needs = "zero_optimization.stage 3",
        .ruled_out = [&c](const auto&) { return c.zero.stage < 3; },
        .automatic = [&c] { c.zero.hpz_partition_size = zero::kNodeOfRanks; }},
       {.path = "zeropp.hpz_device",
        .flag = "--hpz-device",
        .field = &c.zero.hpz_device,
        .help = "Place of hpZ's secondary copy; cpu is page-locked memory of the host, from which "
                "each rank brings its part for every gather inside the node",
        .in_effect = [&c] { return c.zero.stage == 3 && c.zero.has_secondary(); },
        .effect_needs = "zero_optimization.stage 3 with zero_optimization.zero_hpz_partition_size "
                        "above 1 or zeropp.weight_differences"},
       {.path = "zeropp.shard_group_size",
        .flag = "--shard-group-size",
        .field = &c.zero.shard_group_size,
        .help = "Ranks that shard one copy of everything at stage 3 (MiCS, hybrid sharding); other "
                "groups hold the same, and gradients are summed over them once a step; 0: all "
                "ranks, auto: those of a node",
        .unit = "ranks",
        .in_effect = [&c] { return c.zero.stage == 3; },
        .effect_needs = "zero_optimization.stage 3",
        .automatic = [&c] { c.zero.shard_group_size = zero::kNodeOfShards; }},
       {.path = "zero_optimization.zero_quantized_gradients",
        .flag = "--zero-quantized-gradients",
        .field = &c.zero.quantized_gradients,
        .help = "qgZ: reduce gradients in the gradient codecs"}});
}

/// Adds options of buckets: how much is communicated at a time, and prefetched.
void add_buckets(std::vector<Option>& table, TrainConfig& c) {
  table.insert(
      table.end(),
      {{.path = "zero_optimization.reduce_bucket_size",
        .flag = "--reduce-bucket-size",
        .field = &c.zero.reduce_bucket_size,
        .help = "Gradients that are reduced together, over all ranks; auto: hidden_size^2",
        .unit = "elements",
        .range = at_least(1),
        .automatic =
            [&c] { c.zero.reduce_bucket_size = c.model.hidden_size * c.model.hidden_size; }},
       {.path = "zero_optimization.stage3_prefetch_bucket_size",
        .flag = "--prefetch-bucket-size",
        .field = &c.zero.prefetch_bucket_size,
        .help =
            "Weights that may be prefetched, that is gathered before their use, beyond the next "
            "two layers; 0 is off; auto: 0.9 hidden_size^2",
        .unit = "elements",
        .in_effect = [&c] { return c.zero.stage == 3 && c.zero.overlap_comm; },
        .effect_needs = "zero_optimization.stage 3 with zero_optimization.overlap_comm",
        .automatic =
            [&c] {
              c.zero.prefetch_bucket_size = c.model.hidden_size * c.model.hidden_size * 9 / 10;
            }},
       {.path = "zero_optimization.stage3_max_live_parameters",
        .flag = "--max-live-parameters",
        .field = &c.zero.max_live_parameters,
        .help = "Gathered weights that prefetch may not exceed; a layer always has its own",
        .unit = "elements",
        .in_effect =
            [&c] {
              return c.zero.stage == 3 && (c.zero.overlap_comm || c.zero.max_reuse_distance > 0);
            },
        .effect_needs = "zero_optimization.stage 3 with zero_optimization.overlap_comm or "
                        "zero_optimization.stage3_max_reuse_distance"}});
}

/// Weights that are kept beyond their use.
void add_kept_weights(std::vector<Option>& table, TrainConfig& c) {
  table.insert(
      table.end(),
      {{.path = "zero_optimization.stage3_max_reuse_distance",
        .flag = "--max-reuse-distance",
        .field = &c.zero.max_reuse_distance,
        .help =
            "Keep weights until their next use where fewer elements than this are used in between, "
            "as long as all that are kept are within stage3_max_live_parameters; 0 is off",
        .unit = "elements",
        .in_effect = [&c] { return c.zero.stage == 3; },
        .effect_needs = "zero_optimization.stage 3"},
       {.path = "zero_optimization.stage3_param_persistence_threshold",
        .flag = "--param-persistence-threshold",
        .field = &c.zero.persistence_threshold,
        .help = "Largest unit (embedding, block, head) that stays whole on every rank, gathered "
                "once a step; 0 is off; auto: 10 hidden_size",
        .unit = "elements",
        .in_effect = [&c] { return c.zero.stage == 3; },
        .effect_needs = "zero_optimization.stage 3",
        .automatic = [&c] { c.zero.persistence_threshold = 10 * c.model.hidden_size; }},
       {.path = "zero_optimization.stage3_model_persistence_threshold",
        .flag = "--model-persistence-threshold",
        .field = &c.zero.model_persistence_threshold,
        .help = "Parameters that may stay whole, of all units together",
        .unit = "elements",
        .in_effect = [&c] { return c.zero.stage == 3; },
        .effect_needs = "zero_optimization.stage 3"},
       {.path = "zero_optimization.overlap_comm",
        .flag = "--overlap-comm",
        .field = &c.zero.overlap_comm,
        .help = "Communicate while computing"}});
}

/// Adds options of error feedback: what becomes of the errors of encoding.
void add_error_feedback(std::vector<Option>& table, TrainConfig& c) {
  const auto qgz = [&c] { return c.zero.quantized_gradients; };
  const auto feedback = [&c] {
    return c.zero.quantized_gradients && c.zero.error_feedback.hops != zero::FeedbackHops::none;
  };
  const char* const feedback_needs =
      "zero_optimization.zero_quantized_gradients with zeropp.error_feedback.hops";
  table.insert(
      table.end(),
      {{.path = "zeropp.error_feedback.hops",
        .flag = "--error-feedback",
        .field = &c.zero.error_feedback.hops,
        .help = "Hops of qgZ that add to the next gradients what their encoding lost",
        .in_effect = qgz,
        .effect_needs = "zero_optimization.zero_quantized_gradients"},
       {.path = "zeropp.error_feedback.beta",
        .flag = "--error-feedback-beta",
        .field = &c.zero.error_feedback.beta,
        .help = "Decay of the kept errors: e <- beta e + (1 - beta) error; 0 is classical",
        .range = {.minimum = 0, .maximum = 1, .maximum_excluded = true},
        .in_effect = feedback,
        .effect_needs = feedback_needs},
       {.path = "zeropp.error_feedback.reset_period",
        .flag = "--error-feedback-reset-period",
        .field = &c.zero.error_feedback.reset_period,
        .help = "Steps after which kept errors are forgotten; 0: never",
        .unit = "steps",
        .in_effect = feedback,
        .effect_needs = feedback_needs},
       {.path = "zeropp.error_feedback.dtype",
        .flag = "--error-feedback-dtype",
        .field = &c.zero.error_feedback.dtype,
        .help = "Type that errors are kept in",
        .in_effect = feedback,
        .effect_needs = feedback_needs},
       {.path = "zeropp.measure_quantization_error",
        .flag = "--measure-quantization-error",
        .field = &c.zero.measure_errors,
        .help = "Steps between measurements of what compression does to weights (stages 1 to 3) "
                "and gradients, for the trace; measured steps take longer; 0: none",
        .unit = "steps"}});
}

/// Adds options of how collectives run.
void add_algorithms(std::vector<Option>& table, TrainConfig& c) {
  table.insert(
      table.end(),
      {{.path = "zeropp.all_gather_algorithm",
        .flag = "--all-gather-algorithm",
        .field = &c.zero.all_gather_algorithm,
        .help = "Algorithm of weight gathers, a name from zpp_info or auto; auto is two-level with "
                "several nodes of several ranks, direct with nodes of one rank that send on lanes, "
                "else over nccl, where nothing is deterministic, direct with qwZ (native-images "
                "with a pipeline) and native without, else flat",
        .in_effect =
            [&c] { return !c.zero.exchanges_differences() || c.zero.persistence_threshold > 0; },
        .effect_needs =
            "weights that are gathered over all ranks: no zeropp.weight_differences at "
            "zero_optimization.stage 3, or zero_optimization.stage3_param_persistence_threshold"},
       {.path = "zeropp.reduce_scatter_algorithm",
        .flag = "--reduce-scatter-algorithm",
        .field = &c.zero.reduce_scatter_algorithm,
        .help =
            "Algorithm of gradient reductions, a name from zpp_info or auto; auto is 2-hop with "
            "qgZ, ordered when deterministic, 2-hop with several nodes of several ranks, 1-hop "
            "with nodes of one rank that send on lanes, native over nccl on one node, else flat"},
       {.path = "zeropp.gradient_dtype",
        .flag = "--gradient-dtype",
        .field = &c.zero.gradient_dtype,
        .help = "Type of the gradients of blocks and head until they are reduced; bf16 halves what "
                "backward writes and reductions read, and rounds each gradient once before its sum",
        .choices = {"fp32", "bf16"},
        .in_effect = [&c] { return c.bf16 && c.zero.stage >= 2; },
        .effect_needs = "bf16.enabled and zero_optimization.stage 2 or 3"},
       {.path = "zeropp.pipeline_depth",
        .flag = "--pipeline-depth",
        .field = &c.zero.pipeline_depth,
        .help = "Chunks in which a collective is pipelined; 1 is none",
        .range = between(1, 1024)},
       {.path = "zeropp.deterministic",
        .flag = "--deterministic",
        .field = &c.zero.deterministic,
        .help = "Compute the same bits on every run, with hpZ on and off and, with one micro-step "
                "a step, at every stage; cuDNN's attention then keeps the scores of a sequence, 2 "
                "bytes for each head and pair of tokens, and without qgZ gradients go from every "
                "rank to the one that sums them"}});
}

void add_zero(std::vector<Option>& table, TrainConfig& c) {
  add_sharding(table, c);
  add_buckets(table, c);
  add_kept_weights(table, c);
  add_error_feedback(table, c);
  add_algorithms(table, c);
}

void add_run(std::vector<Option>& table, TrainConfig& c) {
  const std::string scope = "zeropp.";
  table.insert(
      table.end(),
      {{.path = "train_batch_size",
        .flag = "--global-batch-size",
        .field = &c.train_batch_size,
        .help =
            "Sequences in a step over all ranks; any two of the three batch sizes give the third",
        .unit = "sequences",
        .range = at_least(1),
        .automatic = keep_default},
       {.path = "train_micro_batch_size_per_gpu",
        .flag = "--micro-batch-size",
        .other_flags = {"--batch-size"},
        .field = &c.train_micro_batch_size_per_gpu,
        .help = "Sequences that a rank takes in a micro-step",
        .unit = "sequences",
        .range = at_least(1),
        .automatic = keep_default},
       {.path = "gradient_accumulation_steps",
        .flag = "--gradient-accumulation-steps",
        .field = &c.gradient_accumulation_steps,
        .help = "Micro-steps in a step",
        .range = between(1, static_cast<double>(kMostAccumulationSteps)),
        .automatic = keep_default},
       backend_option(c.backend, scope),
       transport_option(c.transport, scope),
       {.path = "zeropp.autotune_gemm",
        .flag = "--autotune-gemm",
        .field = &c.autotune_gemm,
        .help = "Time cuBLASLt's algorithms for each matrix product in the first step and keep the "
                "fastest (back end cuda); runs and ranks may choose differently"},
       {.path = "zeropp.device_memory_limit",
        .flag = "--device-memory-limit",
        .field = &c.device_memory_limit,
        .help = "Memory that a rank may take on its device (the host back end: all but what is "
                "offloaded); a run that needs more ends before it begins, and says what would "
                "fit; 0: none",
        .unit = "bytes",
        .binary_suffix = true},
       gpu_sampling_option(c.gpu_sampling, c.backend, scope),
       copy_engines_option(c.copy_engines, scope),
       rail_lanes_option(c.rail_lanes, scope),
       node_size_option(c.node_size, scope),
       virtual_ranks_option(c.virtual_ranks, scope),
       {.path = "zeropp.seed",
        .flag = "--seed",
        .field = &c.seed,
        .help = "Seed of initial weights and data order"},
       {.path = "zeropp.train_steps",
        .flag = "--train-iters",
        .field = &c.train_steps,
        .help = "Optimizer steps",
        .unit = "steps",
        .range = at_least(1)},
       {.path = "zeropp.evaluation_interval",
        .flag = "--eval-interval",
        .field = &c.evaluation_interval,
        .help = "Steps between evaluations on held-out data; 0: none",
        .unit = "steps"},
       {.path = "zeropp.evaluation_batches",
        .flag = "--eval-iters",
        .field = &c.evaluation_batches,
        .help = "Micro-batches of a rank in one evaluation",
        .range = at_least(1),
        .in_effect = [&c] { return c.evaluation_interval > 0; },
        .effect_needs = "zeropp.evaluation_interval"},
       {.path = "zeropp.log_interval",
        .flag = "--log-interval",
        .field = &c.log_interval,
        .help = "Steps between progress lines",
        .unit = "steps",
        .range = at_least(1)},
       {.path = "zeropp.hash_parameters",
        .flag = "--hash-parameters",
        .field = &c.hash_parameters,
        .help = "Put the hash of the final weights into the trace (a second for a billion)"},
       {.path = "zeropp.verify_interval",
        .flag = "--verify-interval",
        .field = &c.zero.verify_interval,
        .help = "Steps between those that are verified against silent data corruption, beside the "
                "first; 0: none",
        .unit = "steps"},
       {.path = "zeropp.verify_action",
        .flag = "--verify-action",
        .field = &c.zero.verify_action,
        .help = "Whether a run ends after a step that is found damaged, or warns and continues",
        .in_effect = [&c] { return c.zero.verify_interval > 0; },
        .effect_needs = "zeropp.verify_interval"}});
}

}  // namespace

std::vector<Option> options(TrainConfig& config) {
  std::vector<Option> table;
  add_zero(table, config);
  add_offload(table, config);
  add_precision(table, config);
  for (Option& option : codec_choice_options(config)) table.push_back(std::move(option));
  add_optimizer(table, config);
  add_run(table, config);
  add_checkpoint(table, config);
  add_model(table, config);
  add_data(table, config);
  // DeepSpeed takes its default for any value that is "auto".
  for (Option& option : table) {
    if (!option.automatic && !option.path.starts_with("zeropp.")) option.automatic = keep_default;
  }
  return table;
}

}  // namespace zeropp::config

// JSON keys are DeepSpeed's where DeepSpeed has one, else in the `zeropp` object; flags are
// Megatron's where Megatron has one.
#include "lib/config/options.hpp"

#include <utility>

#include "lib/config/codec_choice.hpp"
#include "lib/config/precision.hpp"

namespace zeropp::config {
namespace {

/// Of a model in any direction: products of two stay within 64 bits.
constexpr double kLargestSize = std::numeric_limits<int>::max();

/// The optimizer computes in fp32: beyond these a value would become infinity, or lose its bits.
constexpr double kLargestFloat = std::numeric_limits<float>::max();
constexpr double kSmallestFloat = std::numeric_limits<float>::min();

void add_zero(std::vector<Option>& table, TrainConfig& c) {
  const auto qgz = [&c] { return c.zero.quantized_gradients; };
  const auto feedback = [&c] {
    return c.zero.quantized_gradients && c.zero.error_feedback.hops != "none";
  };
  const char* const feedback_needs =
      "zero_optimization.zero_quantized_gradients with zeropp.error_feedback.hops";
  table.insert(
      table.end(),
      {{.path = "zero_optimization.stage",
        .flag = "--zero-stage",
        .field = &c.zero.stage,
        .help = "What is sharded: 0 nothing, 1 optimizer, 2 and gradients, 3 and parameters",
        .range = between(0, 3)},
       {.path = "zero_optimization.zero_quantized_weights",
        .flag = "--zero-quantized-weights",
        .field = &c.zero.quantized_weights,
        .help = "qwZ: gather weights in weight_codec (stages 1 to 3)"},
       {.path = "zero_optimization.zero_hpz_partition_size",
        .flag = "--zero-hpz-partition-size",
        .field = &c.zero.hpz_partition_size,
        .help = "hpZ: ranks that hold one secondary copy of all weights (stage 3); 1 is off",
        .unit = "ranks",
        .range = at_least(1)},
       {.path = "zero_optimization.zero_quantized_gradients",
        .flag = "--zero-quantized-gradients",
        .field = &c.zero.quantized_gradients,
        .help = "qgZ: reduce gradients in the gradient codecs"},
       {.path = "zero_optimization.reduce_bucket_size",
        .flag = "--reduce-bucket-size",
        .field = &c.zero.reduce_bucket_size,
        .help = "Gradients that are reduced together, over all ranks",
        .unit = "elements",
        .range = at_least(1)},
       {.path = "zero_optimization.stage3_prefetch_bucket_size",
        .flag = "--prefetch-bucket-size",
        .field = &c.zero.prefetch_bucket_size,
        .help = "Weights that may be gathered ahead of their use, beyond the next two layers; 0 is "
                "off",
        .unit = "elements",
        .in_effect = [&c] { return c.zero.stage == 3 && c.zero.overlap_comm; },
        .effect_needs = "zero_optimization.stage 3 with zero_optimization.overlap_comm"},
       {.path = "zero_optimization.overlap_comm",
        .flag = "--overlap-comm",
        .field = &c.zero.overlap_comm,
        .help = "Communicate while computing"},
       {.path = "zeropp.error_feedback.hops",
        .flag = "--error-feedback",
        .field = &c.zero.error_feedback.hops,
        .help = "Hops of qgZ that add to the next gradients what their encoding lost",
        .choices = {"none", "intra", "inter", "both"},
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
        .help = "What errors are kept in",
        .choices = {"fp32", "int8"},
        .in_effect = feedback,
        .effect_needs = feedback_needs},
       {.path = "zeropp.measure_quantization_error",
        .flag = "--measure-quantization-error",
        .field = &c.zero.measure_errors,
        .help = "Steps between measurements of what compression does to weights (stage 3) and "
                "gradients, for the trace; measured steps take longer; 0: none",
        .unit = "steps"},
       {.path = "zeropp.all_gather_algorithm",
        .flag = "--all-gather-algorithm",
        .field = &c.zero.all_gather_algorithm,
        .help =
            "Name from zpp_info, or auto: two-level with several nodes of several ranks; else "
            "over nccl direct with qwZ and native without, where nothing is deterministic; else "
            "flat"},
       {.path = "zeropp.secondary_gather_algorithm",
        .flag = "--secondary-gather-algorithm",
        .field = &c.zero.secondary_gather_algorithm,
        .help = "Of hpZ's gather: a name from zpp_info, or auto: native over nccl where nothing is "
                "deterministic, else flat",
        .in_effect = [&c] { return c.zero.hpz_partition_size > 1; },
        .effect_needs = "zero_optimization.zero_hpz_partition_size above 1"},
       {.path = "zeropp.reduce_scatter_algorithm",
        .flag = "--reduce-scatter-algorithm",
        .field = &c.zero.reduce_scatter_algorithm,
        .help =
            "Name from zpp_info, or auto: 2-hop with qgZ, ordered when deterministic, 2-hop with "
            "several nodes of several ranks, native over nccl on one node, else flat"},
       {.path = "zeropp.algorithm_table",
        .flag = "--algorithm-table",
        .field = &c.algorithm_table,
        .help =
            "JSON of a zpp_sweep run on the same ranks: auto takes the algorithms that were the "
            "fastest there for a unit of this model, instead of the rules above; empty: none",
        // Once they are chosen, their names are what is in effect.
        .in_effect =
            [&c] {
              return c.zero.all_gather_algorithm == "auto" ||
                     c.zero.reduce_scatter_algorithm == "auto" ||
                     (c.zero.hpz_partition_size > 1 && c.zero.secondary_gather_algorithm == "auto");
            },
        .effect_needs = "an algorithm that is auto"},
       {.path = "zeropp.pipeline_depth",
        .flag = "--pipeline-depth",
        .field = &c.zero.pipeline_depth,
        .help = "Chunks in which a collective is pipelined; 1 is none",
        .range = between(1, 1024)},
       {.path = "zeropp.deterministic",
        .flag = "--deterministic",
        .field = &c.zero.deterministic,
        .help =
            "The same bits on every run, with hpZ on and off and, with one micro-step a step, at "
            "every stage"}});
}

void add_training(std::vector<Option>& table, TrainConfig& c) {
  const Range below_one{.minimum = 0, .maximum = 1, .maximum_excluded = true};
  // In effect where the optimizer reads it.
  const auto parameter = [&c](std::string name, Option option) {
    option.effect_needs = "optimizer.type " + optim::readers(name);
    option.in_effect = [&c, name = std::move(name)] {
      return optim::reads(c.optimizer.type, name);
    };
    return option;
  };
  table.insert(
      table.end(),
      {{.path = "train_batch_size",
        .flag = "--global-batch-size",
        .field = &c.train_batch_size,
        .help = "Sequences a step over all ranks; any two of the three batch sizes give the third",
        .unit = "sequences",
        .range = at_least(1)},
       {.path = "train_micro_batch_size_per_gpu",
        .flag = "--micro-batch-size",
        .field = &c.train_micro_batch_size_per_gpu,
        .help = "Sequences a rank and micro-step",
        .unit = "sequences",
        .range = at_least(1)},
       {.path = "gradient_accumulation_steps",
        .flag = "--gradient-accumulation-steps",
        .field = &c.gradient_accumulation_steps,
        .help = "Micro-steps a step",
        .range = between(1, static_cast<double>(kMostAccumulationSteps))},
       {.path = "optimizer.type",
        .flag = "--optimizer",
        .field = &c.optimizer.type,
        .help = "Optimizer",
        .choices = optim::types()},
       parameter("lr", {.path = "optimizer.params.lr",
                        .flag = "--lr",
                        .field = &c.optimizer.learning_rate,
                        .help = "Learning rate",
                        .range = between(0, kLargestFloat)}),
       parameter("betas", {.path = "optimizer.params.betas.0",
                           .flag = "--adam-beta1",
                           .field = &c.optimizer.beta1,
                           .help = "Decay of the first moment; of Lion: share of it in the update",
                           .range = below_one}),
       parameter("betas", {.path = "optimizer.params.betas.1",
                           .flag = "--adam-beta2",
                           .field = &c.optimizer.beta2,
                           .help = "Decay of the second moment; of Lion: of its one moment",
                           .range = below_one}),
       parameter("eps", {.path = "optimizer.params.eps",
                         .flag = "--adam-eps",
                         .field = &c.optimizer.epsilon,
                         .help = "Added to the root of the second moment",
                         .range = between(kSmallestFloat, kLargestFloat)}),
       parameter("weight_decay",
                 {.path = "optimizer.params.weight_decay",
                  .flag = "--weight-decay",
                  .field = &c.optimizer.weight_decay,
                  .help = "Weight decay: decoupled in AdamW and Lion, in Adam and SGD part of "
                          "the gradient",
                  .range = between(0, kLargestFloat)}),
       parameter("momentum", {.path = "optimizer.params.momentum",
                              .flag = "--sgd-momentum",
                              .field = &c.optimizer.momentum,
                              .help = "Share of the previous steps' sum that stays in it; 0: "
                                      "none, and no memory for it",
                              .range = below_one}),
       {.path = "optimizer.params.nesterov",
        .flag = "--sgd-nesterov",
        .field = &c.optimizer.nesterov,
        .help = "Nesterov's momentum",
        .in_effect =
            [&c] { return optim::reads(c.optimizer.type, "nesterov") && c.optimizer.momentum > 0; },
        .effect_needs =
            "optimizer.params.momentum above 0 and optimizer.type " + optim::readers("nesterov")},
       {.path = "gradient_clipping",
        .flag = "--clip-grad",
        .field = &c.zero.gradient_clipping,
        .help = "Largest global norm of the mean gradient; 0 is off",
        .range = between(0, kLargestFloat)},
       {.path = "zeropp.backend",
        .flag = "--backend",
        .field = &c.backend,
        .help = "What computes; auto: cuda where every rank has a GPU of its own, else host",
        .choices = {"auto", "host", "cuda"}},
       {.path = "zeropp.transport",
        .flag = "--transport",
        .field = &c.transport,
        .help =
            "What moves bytes; auto: nccl with the back end cuda, else mpi. With cuda, mpi goes "
            "through host memory and lets ranks share a GPU",
        .choices = {"auto", "mpi", "nccl"}},
       {.path = "zeropp.autotune_gemm",
        .flag = "--autotune-gemm",
        .field = &c.autotune_gemm,
        .help = "Back end cuda: time cuBLASLt's algorithms for each matrix product in the first "
                "step and keep the fastest; runs and ranks may choose differently"},
       {.path = "zeropp.gpu_sampling",
        .flag = "--gpu-sampling",
        .field = &c.gpu_sampling,
        .help = "Between readings of clocks, power, temperature and throttle reasons of each "
                "rank's GPU, for the trace; 0: none",
        .unit = "seconds",
        .range = between(0, 3600),
        .in_effect = [&c] { return c.backend != "host"; },
        .effect_needs = "zeropp.backend cuda"},
       {.path = "zeropp.rail_lanes",
        .flag = "--rail-lanes",
        .field = &c.rail_lanes,
        .help = "NCCL communicators that share what two-level and 2-hop send between nodes: each "
                "has a thread of its own for its sockets; 0: 4 over sockets, else 1",
        .range = between(0, 16)},
       {.path = "zeropp.node_size",
        .flag = "--node-size",
        .field = &c.node_size,
        .help = "Declare nodes of this many ranks (results are marked emulated); 0: as found",
        .unit = "ranks",
        .range = between(0, std::numeric_limits<int>::max())},
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
        .help = "Micro-batches a rank in one evaluation",
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
        .help = "Put the hash of the final weights into the trace (a second for a billion)"}});
}

void add_checkpoint(std::vector<Option>& table, TrainConfig& c) {
  const auto saves = [&c] { return !c.checkpoint.save.empty(); };
  const auto gpt = [&c] { return c.model.name == "gpt"; };
  table.insert(
      table.end(),
      {{.path = "zeropp.checkpoint.save",
        .flag = "--save",
        .field = &c.checkpoint.save,
        .help = "Folder for checkpoints, which all ranks see: the last step's, and those of the "
                "interval; empty: none"},
       {.path = "zeropp.checkpoint.load",
        .flag = "--load",
        .field = &c.checkpoint.load,
        .help = "Folder of checkpoints: the run goes on from its newest, of any number of ranks "
                "and any stage; without one in it, it begins at the first step; empty: none"},
       {.path = "zeropp.checkpoint.weights",
        .flag = "--load-weights",
        .field = &c.checkpoint.weights,
        .help = "model.safetensors of GPT-2 that the run begins with, where there is no checkpoint "
                "to go on from; empty: initial weights by the seed",
        .in_effect = gpt,
        .effect_needs = "zeropp.model.name gpt"},
       {.path = "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        .flag = "--gather-weights-on-save",
        .field = &c.checkpoint.gather_weights,
        .help = "A checkpoint holds the weights in one file too, for transformers, as GPT-2's, in "
                "the type that is computed in (at any stage)",
        .in_effect = [=] { return saves() && gpt(); },
        .effect_needs = "zeropp.checkpoint.save and zeropp.model.name gpt"},
       {.path = "zeropp.checkpoint.interval",
        .flag = "--save-interval",
        .field = &c.checkpoint.interval,
        .help = "Steps between checkpoints; 0: only where the run ends, by a signal too",
        .unit = "steps",
        .in_effect = saves,
        .effect_needs = "zeropp.checkpoint.save"},
       {.path = "zeropp.checkpoint.keep",
        .flag = "--save-keep",
        .field = &c.checkpoint.keep,
        .help = "Newest checkpoints that stay",
        .range = at_least(1),
        .in_effect = saves,
        .effect_needs = "zeropp.checkpoint.save"},
       {.path = "zeropp.checkpoint.asynchronous",
        .flag = "--async-save",
        .field = &c.checkpoint.asynchronous,
        .help = "Write checkpoints from a copy in host memory while training goes on",
        .in_effect = saves,
        .effect_needs = "zeropp.checkpoint.save"}});
}

void add_model_and_data(std::vector<Option>& table, TrainConfig& c) {
  const auto transformer = [&c] { return model::is_transformer(c.model); };
  table.insert(
      table.end(),
      {{.path = "zeropp.model.name",
        .flag = "--model",
        .field = &c.model.name,
        .help = "Model, a name from zpp_info"},
       {.path = "zeropp.model.num_layers",
        .flag = "--num-layers",
        .field = &c.model.num_layers,
        .help = "Transformer blocks, or units of the quadratic model",
        .range = between(1, kLargestSize)},
       {.path = "zeropp.model.hidden_size",
        .flag = "--hidden-size",
        .field = &c.model.hidden_size,
        .help = "Width of the residual stream, or parameters of a unit of the quadratic model",
        .range = between(1, kLargestSize)},
       {.path = "zeropp.model.num_attention_heads",
        .flag = "--num-attention-heads",
        .field = &c.model.num_attention_heads,
        .help = "Heads; divides the hidden size",
        .range = between(1, kLargestSize),
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.seq_length",
        .flag = "--seq-length",
        .field = &c.model.seq_length,
        .help = "Tokens a sequence",
        .unit = "tokens",
        .range = between(1, kLargestSize)},
       {.path = "zeropp.model.vocab_size",
        .flag = "--vocab-size",
        .field = &c.model.vocab_size,
        .help = "Tokens that the model knows; 0: the token source's. The encoder has one more, for "
                "what is masked",
        .unit = "tokens",
        .range = between(0, kLargestSize)},
       {.path = "zeropp.model.tied_head",
        .flag = "--tied-head",
        .field = &c.model.tied_head,
        .help = "The head reads the token embedding again",
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.model.recompute_activations",
        .flag = "--recompute-activations",
        .field = &c.model.recompute_activations,
        .help =
            "Keep a block's input alone and run its forward again in backward: less memory, the "
            "same bits",
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zeropp.data.source",
        .flag = "--data-source",
        .field = &c.data.source,
        .help = "Token source, a name from zpp_info"},
       {.path = "zeropp.data.path",
        .flag = "--data-path",
        .field = &c.data.path,
        .help = "File of the source text",
        .in_effect = [&c] { return data::reads_file(c.data); },
        .effect_needs = "zeropp.data.source text"},
       {.path = "zeropp.data.held_out_fraction",
        .flag = "--held-out-fraction",
        .field = &c.data.held_out_fraction,
        .help = "Share at the end of the data that is never trained on",
        .range = {
            .minimum = 0, .maximum = 1, .minimum_excluded = true, .maximum_excluded = true}}});
}

}  // namespace

std::vector<Option> options(TrainConfig& config) {
  std::vector<Option> table;
  add_zero(table, config);
  add_precision(table, config);
  for (Option& option : codec_choice_options(config)) table.push_back(std::move(option));
  add_training(table, config);
  add_checkpoint(table, config);
  add_model_and_data(table, config);
  return table;
}

}  // namespace zeropp::config

// The table itself. Names, types and defaults: DeepSpeed's documentation of its configuration.
#include "lib/config/deepspeed_keys.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;
using Accepts = DeepSpeedKey::Accepts;

constexpr const char* kOwnTrace = "the trace has every step's times, bytes and memory";
constexpr const char* kByUnit = "weights are gathered and released unit by unit";
constexpr const char* kOtherTraining = "it would change what is trained, and is not built";
constexpr const char* kOwnCheckpoints = "checkpoints are those of zeropp.checkpoint";

DeepSpeedKey anything(const char* path, const char* type, const char* fallback, const char* why) {
  return {path, type, fallback, Accepts::anything, {}, why};
}
DeepSpeedKey only(const char* path, const char* type, const char* fallback,
                  std::vector<json> values, const char* why) {
  return {path, type, fallback, Accepts::these, std::move(values), why};
}
DeepSpeedKey with_flag(const char* flag, DeepSpeedKey key) {
  key.flag = flag;
  return key;
}
DeepSpeedKey disabled(const char* path, const char* why) {
  return {path, "section", "disabled", Accepts::disabled, {}, why};
}
DeepSpeedKey refused(const char* path, const char* type, const char* fallback, const char* why) {
  return {path, type, fallback, Accepts::nothing, {}, why};
}

void add(std::vector<DeepSpeedKey>& table, std::vector<DeepSpeedKey> keys) {
  for (DeepSpeedKey& key : keys) table.push_back(std::move(key));
}

void add_training(std::vector<DeepSpeedKey>& table) {
  const char* const sent_as_computed =
      "gradients are summed in fp32 and sent in the type of the weights, in 16 bits with bf16 or "
      "fp16, unless zero_optimization.zero_quantized_gradients compresses them";
  add(table,
      {only("managed_gradient_accumulation", "boolean", "true", {true},
            "a step always ends with its last micro-step"),
       anything("optimizer.params.torch_adam", "boolean", "false",
                "there is one implementation of each optimizer"),
       only("optimizer.params.bias_correction", "boolean", "true", {true},
            "Adam and AdamW always correct their moments' bias"),
       only("optimizer.params.amsgrad", "boolean", "false", {false}, "AMSGrad is not built"),
       only("scheduler.params.last_batch_iteration", "integer", "-1", {-1},
            "a run begins at the first step, or where its checkpoint is"),
       only("optimizer.legacy_fusion", "boolean", "false", {false},
            "there is one implementation of each optimizer"),
       anything("zero_allow_untested_optimizer", "boolean", "false",
                "every optimizer is tested at every stage"),
       anything("zero_force_ds_cpu_optimizer", "boolean", "true",
                "there is one implementation of each optimizer"),
       only("communication_data_type", "text", "null", {"fp32", "fp16", "bf16"}, sent_as_computed),
       only("seq_parallel_communication_data_type", "text", "fp32", {"fp32"},
            "there is no sequence parallelism"),
       only("gradient_allreduce_op", "text", "mean", {"mean"}, "gradients are averaged"),
       only("prescale_gradients", "boolean", "false", {false},
            "the mean is taken of the sum, which is fp32 and does not overflow"),
       only("gradient_predivide_factor", "number", "1.0", {1.0},
            "the mean is taken of the sum, which is fp32 and does not overflow"),
       only("sparse_gradients", "boolean", "false", {false}, "gradients of embeddings are dense"),
       only("data_types.grad_accum_dtype", "text", "null", {"fp32"},
            "micro-steps are added up in fp32"),
       only("disable_allgather", "boolean", "false", {false},
            "stages 1 and 2 gather their weights in one all-gather a unit"),
       only("sequence_parallel_size", "integer", "1", {1}, "there is no sequence parallelism"),
       with_flag("--tensor-model-parallel-size", only("tensor_parallel.autotp_size", "integer", "0",
                                                      {0, 1}, "there is no tensor parallelism")),
       with_flag("--pipeline-model-parallel-size",
                 only("pipeline.stages", "integer", "auto", {1, "auto"},
                      "there is no pipeline parallelism")),
       anything("dataloader_drop_last", "boolean", "false",
                "sequences are drawn from the tokens without end")});
}

void add_precision(std::vector<DeepSpeedKey>& table) {
  add(table, {only("fp16.auto_cast", "boolean", "false", {false}, "models take tokens, not values"),
              only("fp16.fp16_master_weights_and_grads", "boolean", "false", {false},
                   "master weights and gradients are fp32"),
              only("bf16.bf16_master_weights_and_grads", "boolean", "false", {false},
                   "master weights and gradients are fp32"),
              only("bf16.bf16_optimizer_states", "boolean", "false", {false},
                   "what the optimizer keeps is fp32"),
              only("bf16.immediate_grad_update", "boolean", "true", {true},
                   "gradients are added up as they are reduced"),
              disabled("amp", "fp16 and bf16 are the mixed precisions that are built"),
              disabled("torch_autocast", "fp16 and bf16 are the mixed precisions that are built")});
}

void add_zero(std::vector<DeepSpeedKey>& table) {
  add(table,
      {refused("zero_optimization.allreduce_bucket_size", "integer", "none",
               "DeepSpeed has no such key; what guides mean is "
               "zero_optimization.reduce_bucket_size"),
       only("zero_optimization.allgather_partitions", "boolean", "true", {true},
            "stages 1 and 2 gather their weights in one all-gather a unit"),
       anything("zero_optimization.allgather_bucket_size", "integer", "5e8",
                "stages 1 and 2 gather their weights unit by unit"),
       only("zero_optimization.reduce_scatter", "boolean", "true", {true},
            "sharded gradients are always reduced by reduce-scatter"),
       only("zero_optimization.contiguous_gradients", "boolean", "true", {true},
            "gradients always lie in flat buffers"),
       anything("zero_optimization.use_multi_rank_bucket_allreduce", "boolean", "true",
                "a bucket always has its part of every rank's shard"),
       anything("zero_optimization.round_robin_gradients", "boolean", "false",
                "every rank has its part of every unit, and offloads that"),
       anything("zero_optimization.ignore_unused_parameters", "boolean", "true",
                "every parameter is used"),
       only("zero_optimization.legacy_stage1", "boolean", "false", {false}, "there is one stage 1"),
       anything("zero_optimization.load_from_fp32_weights", "boolean", "true",
                "master weights are saved and loaded in fp32"),
       anything("zero_optimization.elastic_checkpoint", "boolean", "false",
                "a checkpoint goes on at any number of ranks and any stage"),
       only("zero_optimization.stage3_module_granularity_threshold", "integer", "0", {0}, kByUnit),
       only("zero_optimization.stage3_use_all_reduce_for_fetch_params", "boolean", "false", {false},
            "weights are gathered by zeropp.all_gather_algorithm"),
       only("zero_optimization.stage3_allgather_sequential", "boolean", "false", {false}, kByUnit),
       anything("zero_optimization.stage3_partition_stream_chunk_size", "integer", "0",
                "initial weights are made shard by shard; no rank ever has a whole one"),
       only("zero_optimization.zero_quantized_nontrainable_weights", "boolean", "false", {false},
            "every weight is trained"),
       anything("zero_optimization.memory_efficient_linear", "boolean", "true",
                "layers keep what their backward reads, and no more"),
       only("zero_optimization.pipeline_loading_checkpoint", "boolean", "false", {false},
            kOwnCheckpoints),
       anything("zero_optimization.override_module_apply", "boolean", "true",
                "models are no PyTorch modules"),
       anything("zero_optimization.log_trace_cache_warnings", "boolean", "false",
                "the order of gathers is planned and has no cache"),
       anything("zero_optimization.enable_sanity_checks", "boolean", "false",
                "what is predicted is always compared with what was sent"),
       anything("zero_optimization.compute_grad_norm", "boolean", "true",
                "the norm is always computed, and in the trace")});
}

void add_offload(std::vector<DeepSpeedKey>& table) {
  add(table, {anything("zero_optimization.offload_param.buffer_size", "integer", "1e8",
                       "a buffer has room for the longest shard of a unit"),
              anything("zero_optimization.offload_optimizer.fast_init", "boolean", "false",
                       "initial weights are always made where they lie, or on their way there"),
              only("zero_optimization.offload_optimizer.super_offload", "boolean", "false", {false},
                   "SuperOffload is not built"),
              disabled("zero_optimization.zenflow", "ZenFlow is not built"),
              only("aio.use_gds", "boolean", "false", {false},
                   "GPUDirect Storage is not built; what lies in files goes through the host")});
}

void add_activations(std::vector<DeepSpeedKey>& table) {
  add(table,
      {anything("activation_checkpointing.partition_activations", "boolean", "false",
                "there is no tensor parallelism to divide activations by"),
       anything("activation_checkpointing.contiguous_memory_optimization", "boolean", "false",
                "activations always lie in one buffer that is made once"),
       anything("activation_checkpointing.number_checkpoints", "integer", "null",
                "it is the size of a buffer of DeepSpeed's; zeropp.model.recompute_activations "
                "keeps one a block, with recompute_interval K one in K"),
       anything("activation_checkpointing.synchronize_checkpoint_boundary", "boolean", "false",
                "streams are ordered by events"),
       anything("activation_checkpointing.profile", "boolean", "false", kOwnTrace)});
}

void add_reports(std::vector<DeepSpeedKey>& table) {
  add(table,
      {anything("wall_clock_breakdown", "boolean", "false", kOwnTrace),
       anything("dump_state", "boolean", "false", "the trace has the effective configuration"),
       anything("memory_breakdown", "boolean", "false", kOwnTrace),
       anything("flops_profiler", "section", "disabled", kOwnTrace),
       anything("comms_logger", "section", "disabled", kOwnTrace),
       anything("timers", "section", "enabled", kOwnTrace),
       anything("tensorboard", "section", "disabled", kOwnTrace),
       anything("wandb", "section", "disabled", kOwnTrace),
       anything("comet", "section", "disabled", kOwnTrace),
       anything("csv_monitor", "section", "disabled", kOwnTrace),
       anything("checkpoint", "section", "none", kOwnCheckpoints),
       only("load_universal_checkpoint", "boolean", "false", {false}, kOwnCheckpoints),
       disabled("nebula", kOwnCheckpoints)});
}

void add_other_training(std::vector<DeepSpeedKey>& table) {
  for (const char* section :
       {"autotuning", "elasticity", "sparse_attention", "data_efficiency", "curriculum_learning",
        "progressive_layer_drop", "eigenvalue", "quantize_training", "compression_training",
        "hybrid_engine", "compile"}) {
    table.push_back(disabled(section, kOtherTraining));
  }
}

}  // namespace

const std::vector<DeepSpeedKey>& deepspeed_keys() {
  static const std::vector<DeepSpeedKey> table = [] {
    std::vector<DeepSpeedKey> keys;
    add_training(keys);
    add_precision(keys);
    add_zero(keys);
    add_offload(keys);
    add_activations(keys);
    add_reports(keys);
    add_other_training(keys);
    return keys;
  }();
  return table;
}

}  // namespace zeropp::config

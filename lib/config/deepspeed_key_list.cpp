// The table itself, by reasons. Names: the classes and constants of DeepSpeed 0.19 that read its
// configuration (deepspeed/runtime/config.py, zero/config.py and what they import), and older ones
// that files still have.
#include "lib/config/deepspeed_keys.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;
using Ignores = DeepSpeedKey::Ignores;

/// Keys that are ignored, whatever they say, for one reason.
struct Reason {
  const char* why;
  std::vector<const char*> paths;
};

/// They report, and do not train.
const std::vector<Reason>& reports() {
  static const std::vector<Reason> reasons{
      {"the trace has every step's times, bytes and memory, and the configuration",
       {"wall_clock_breakdown", "memory_breakdown", "dump_state", "log_level", "flops_profiler",
        "comms_logger", "timers", "tensorboard", "wandb", "comet", "csv_monitor",
        "activation_checkpointing.profile", "zero_optimization.log_trace_cache_warnings"}},
      {"checkpoints are those of zeropp.checkpoint",
       {"checkpoint", "load_universal_checkpoint", "nebula", "datastates",
        "zero_optimization.pipeline_loading_checkpoint", "zero_optimization.elastic_checkpoint",
        "zero_optimization.load_from_fp32_weights"}},
      {"it measures or searches, and trains nothing",
       {"autotuning", "vocabulary_size", "zero_optimization.enable_sanity_checks",
        "zero_optimization.compute_grad_norm", "eigenvalue"}},
      {"generation is no part of a run here", {"hybrid_engine"}}};
  return reasons;
}

/// They say how PyTorch and DeepSpeed go about the same computation.
const std::vector<Reason>& ways() {
  static const std::vector<Reason> reasons{
      {"models are no PyTorch modules",
       {"compile", "graph_harvesting", "zero_optimization.override_module_apply",
        "zero_optimization.memory_efficient_linear", "zero_optimization.leaf_module",
        "zero_optimization.stage3_module_granularity_threshold",
        "zero_optimization.module_granularity_threshold", "fp16.auto_cast", "fp16.opt_level",
        "fp16.fp16_opt_level", "data_types.buffer_dtype"}},
      {"fp16.enabled and bf16.enabled say the type", {"data_types.param_dtype"}},
      {"there is one implementation of each optimizer",
       {"optimizer.legacy_fusion", "optimizer.params.torch_adam", "optimizer.params.fused",
        "optimizer.params.foreach", "optimizer.params.capturable",
        "optimizer.params.differentiable", "optimizer.params.set_grad_none",
        "optimizer.params.fp32_optimizer_states", "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer", "zero_optimization.offload_optimizer.cpuadam_cores_perc"}},
      {"no optimizer here keeps Muon's momentum",
       {"zero_optimization.save_muon_momentum_buffer_in_memory"}},
      {"there is one implementation of each stage",
       {"zero_optimization.legacy_stage1", "zero_optimization.contiguous_gradients",
        "zero_optimization.round_robin_gradients",
        "zero_optimization.use_multi_rank_bucket_allreduce",
        "zero_optimization.ignore_unused_parameters",
        "zero_optimization.stage3_partition_stream_chunk_size"}},
      {"weights are gathered unit by unit, by zeropp.all_gather_algorithm",
       {"disable_allgather", "allgather_size", "zero_optimization.allgather_partitions",
        "zero_optimization.allgather_bucket_size",
        "zero_optimization.stage3_use_all_reduce_for_fetch_params",
        "zero_optimization.use_all_reduce_for_fetch_params",
        "zero_optimization.stage3_allgather_sequential", "zero_optimization.allgather_sequential"}},
      {"the mean of gradients is taken of their fp32 sum, which a reduce-scatter makes from stage "
       "2 "
       "on",
       {"prescale_gradients", "gradient_predivide_factor", "fp32_allreduce",
        "allreduce_always_fp32", "sparse_gradients", "zero_optimization.reduce_scatter",
        "zero_optimization.allreduce_bucket_size", "data_types.grad_accum_dtype",
        "bf16.immediate_grad_update"}},
      {"gradients travel in the type of the weights, in 16 bits with bf16 or fp16, unless "
       "zero_optimization.zero_quantized_gradients compresses them",
       {"communication_data_type"}},
      {"a step ends with its last micro-step, and sequences are drawn from tokens without end",
       {"managed_gradient_accumulation", "dataloader_drop_last"}},
      {"a step whose gradient is not finite is skipped in every precision",
       {"bf16.check_grad_overflow"}},
      {"bf16 needs no loss scale",
       {"bf16.loss_scale", "bf16.initial_scale_power", "bf16.loss_scale_window", "bf16.hysteresis",
        "bf16.min_loss_scale", "bf16.consecutive_hysteresis", "bf16.auto_cast"}},
      {"every weight is trained", {"zero_optimization.zero_quantized_nontrainable_weights"}},
      {"there are no experts", {"use_data_before_expert_parallelism"}},
      {"there is no sequence parallelism", {"seq_parallel_communication_data_type"}},
      {"there is no pipeline parallelism",
       {"pipeline.partition", "pipeline.seed_layers", "pipeline.activation_checkpoint_interval",
        "pipeline.pipe_partitioned", "pipeline.grad_partitioned", "pipeline.use_reentrant"}},
      {"there is no tensor parallelism",
       {"activation_checkpointing.partition_activations", "tensor_parallel.dtype",
        "tensor_parallel.tp", "tensor_parallel.tp_overlap_comm",
        "tensor_parallel.keep_module_on_host", "tensor_parallel.replace_with_kernel_inject",
        "tensor_parallel.partition_config", "tensor_parallel.preset_model",
        "tensor_parallel.injection_policy_tuple"}},
      {"activations of a block lie in one buffer that is made once",
       {"activation_checkpointing.contiguous_memory_optimization",
        "activation_checkpointing.synchronize_checkpoint_boundary"}},
      {"zeropp.model.recompute_activations keeps the input of every block, with recompute_interval "
       "K of one block in K",
       {"activation_checkpointing.number_checkpoints"}},
      {"arrays on the host and in files have the sizes of their units, and the host steps",
       {"zero_optimization.offload_param.buffer_size",
        "zero_optimization.offload_optimizer.fast_init",
        "zero_optimization.offload_param.fast_init",
        "zero_optimization.offload_optimizer.super_offload", "aio.use_gds"}}};
  return reasons;
}

DeepSpeedKey off(const char* path, const char* why) {
  return {.path = path, .why = why, .ignores = Ignores::off};
}
DeepSpeedKey these(const char* path, std::vector<json> values, const char* why,
                   const char* flag = "") {
  return {.path = path,
          .why = why,
          .ignores = Ignores::these,
          .values = std::move(values),
          .flag = flag};
}

/// Keys that would train, or send, something else.
std::vector<DeepSpeedKey> refused_when_on() {
  const char* const trains_otherwise = "it would change what is trained, and is not built";
  const char* const precisions = "fp16 and bf16 are the mixed precisions that are built";
  const char* const master = "master weights and gradients are fp32";
  std::vector<DeepSpeedKey> keys{
      these("gradient_allreduce_op", {"mean"}, "gradients are averaged"),
      these("tensor_parallel.autotp_size", {0, 1}, "there is no tensor parallelism",
            "--tensor-model-parallel-size"),
      these("pipeline.stages", {1}, "there is no pipeline parallelism",
            "--pipeline-model-parallel-size"),
      these("sequence_parallel_size", {1}, "there is no sequence parallelism"),
      these("optimizer.params.bias_correction", {true},
            "Adam and AdamW always correct the bias of their moments"),
      these("optimizer.params.amsgrad", {false}, "AMSGrad is not built"),
      these("optimizer.params.max_grad_norm", {0},
            "DeepSpeed refuses it; gradient_clipping is the key of the largest norm"),
      these("scheduler.params.last_batch_iteration", {-1},
            "a run begins at the first step, or where its checkpoint is"),
      these("fp16.fp16_master_weights_and_grads", {false}, master),
      these("bf16.bf16_master_weights_and_grads", {false}, master),
      these("bf16.bf16_optimizer_states", {false},
            "zeropp.moments is the key of the type of the moments"),
      these("zero_optimization.zenflow", {}, "ZenFlow is not built"),
      these("sparse_attention", {}, trains_otherwise),
      these("weight_quantization", {}, trains_otherwise),
      off("amp", precisions),
      off("torch_autocast", precisions),
      off("elasticity", "it chooses the batch sizes, and is not built: set them yourself"),
      off("expert_parallel", "there are no experts")};
  for (const char* section : {"data_efficiency", "curriculum_learning", "progressive_layer_drop",
                              "quantize_training", "compression_training"}) {
    keys.push_back(off(section, trains_otherwise));
  }
  return keys;
}

}  // namespace

const std::vector<DeepSpeedKey>& deepspeed_keys() {
  static const std::vector<DeepSpeedKey> table = [] {
    std::vector<DeepSpeedKey> keys = refused_when_on();
    for (const auto* reasons : {&reports(), &ways()}) {
      for (const auto& [why, paths] : *reasons) {
        for (const char* path : paths) keys.push_back({.path = path, .why = why});
      }
    }
    return keys;
  }();
  return table;
}

}  // namespace zeropp::config

#include "lib/config/groups.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace zeropp::config {

const OptionGroup& group_of(std::string_view path, const std::vector<OptionGroup>& groups) {
  const OptionGroup* found = nullptr;
  std::size_t longest = 0;
  for (const OptionGroup& group : groups) {
    for (const std::string& begin : group.paths) {
      if (!path.starts_with(begin) || (found != nullptr && begin.size() <= longest)) continue;
      found = &group;
      longest = begin.size();
    }
  }
  if (found == nullptr) {
    throw std::logic_error(
        fmt::format("{} is in no group: add the beginning of its path to one", path));
  }
  return *found;
}

const std::vector<OptionGroup>& option_groups() {
  static const std::vector<OptionGroup> groups{
      {"model", "Model", "The shape of what is trained.", {"zeropp.model."}},
      {"data", "Data", "Where tokens come from.", {"zeropp.data."}},
      {"batch",
       "Batch",
       "Two of the three sizes give the third.",
       {"train_", "gradient_accumulation_steps"}},
      {"run",
       "Run",
       "Length, evaluation, output, reproducibility and verification.",
       {"zeropp.train_steps", "zeropp.seed", "zeropp.evaluation_", "zeropp.log_",
        "zeropp.hash_parameters", "zeropp.deterministic", "zeropp.verify_"}},
      {"machine",
       "Machine",
       "The back end that computes, and the links that move bytes.",
       {"zeropp.backend", "zeropp.transport", "zeropp.node_size", "zeropp.virtual_ranks",
        "zeropp.autotune_gemm", "zeropp.device_memory_limit", "zeropp.gpu_sampling",
        "zeropp.copy_engines", "zeropp.rail_lanes"}},
      {"sharding",
       "Sharding and ZeRO++",
       "Which state is sharded among which ranks, and the three parts of ZeRO++.",
       {"zero_optimization.stage", "zero_optimization.zero_", "zeropp.hpz_device",
        "zeropp.shard_group_size", "tensor_parallel.", "pipeline."}},
      {"communication",
       "Communication",
       "Algorithms, buckets, and what is prefetched or kept.",
       {"zero_optimization.reduce_bucket_size", "zero_optimization.overlap_comm",
        "zero_optimization.stage3_", "zeropp.all_gather_", "zeropp.reduce_scatter_",
        "zeropp.gradient_dtype", "zeropp.pipeline_depth"}},
      {"compression",
       "Compression",
       "Wire formats, and what becomes of their errors.",
       {"zeropp.weight_", "zeropp.exact_", "zeropp.keep_weight_images", "zeropp.gradient_codec_",
        "zeropp.codec_schedule", "zeropp.adaptive_bits.", "zeropp.error_feedback.",
        "zeropp.measure_quantization_error"}},
      {"precision",
       "Precision",
       "The compute type: fp32, or 16 bits with fp32 master weights.",
       {"bf16.", "fp16."}},
      {"optimizer",
       "Optimizer",
       "The update of the weights.",
       {"optimizer.", "zeropp.decayed_parameters", "zeropp.moments", "gradient_clipping",
        "zeropp.update_in_backward"}},
      {"schedule", "Learning rate", "The learning rate from step to step.", {"scheduler."}},
      {"offload",
       "Offload",
       "State in the host's memory or in files.",
       {"zero_optimization.offload_", "zero_optimization.sub_group_size", "zeropp.offload_",
        "aio."}},
      {"checkpoint",
       "Checkpoints",
       "Saved state, and the checkpoint that a run resumes from.",
       {"zeropp.checkpoint.", "zero_optimization.stage3_gather_16bit_weights_on_model_save"}}};
  return groups;
}

const std::vector<std::string>& common_flags() {
  static const std::vector<std::string> flags{"--model",
                                              "--num-layers",
                                              "--hidden-size",
                                              "--num-attention-heads",
                                              "--seq-length",
                                              "--data-source",
                                              "--data-path",
                                              "--global-batch-size",
                                              "--micro-batch-size",
                                              "--train-iters",
                                              "--eval-interval",
                                              "--seed",
                                              "--backend",
                                              "--node-size",
                                              "--zero-stage",
                                              "--zero-quantized-weights",
                                              "--zero-hpz-partition-size",
                                              "--zero-quantized-gradients",
                                              "--weight-codec",
                                              "--gradient-codec-intra",
                                              "--gradient-codec-inter",
                                              "--bf16",
                                              "--optimizer",
                                              "--lr",
                                              "--scheduler",
                                              "--offload-optimizer",
                                              "--save",
                                              "--load"};
  return flags;
}

}  // namespace zeropp::config

#include "lib/app/foreign_flags.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace zeropp::app {

namespace {

struct Foreign {
  std::string_view about;
  std::vector<std::string_view> flags;
};

const std::vector<Foreign>& foreign_flags() {
  // Flags of torchrun, DeepSpeed's launcher, Megatron-LM, torchtitan and Hugging Face's trainer.
  static const std::vector<Foreign> all{
      {"the launcher starts the ranks: mpirun -n 8 PROGRAM, or srun",
       {"gpus", "hostfile", "include", "local-rank", "local-world-size", "master-addr",
        "master-port", "nnodes", "node-rank", "nodes", "nproc-per-node", "num-gpus", "num-nodes",
        "rank", "world-size"}},
      {"there is data parallelism alone, by ZeRO over all ranks",
       {"context-parallel-degree", "context-parallel-size", "cp", "data-parallel-size", "dp", "ep",
        "expert-model-parallel-size", "expert-parallel-degree", "expert-parallel-size",
        "pipeline-parallel-degree", "pipeline-parallel-size", "pp", "sequence-parallel",
        "sequence-parallel-size", "sp", "tensor-parallel-degree", "tensor-parallel-size", "tp"}},
      {"a number is --zero-hpz-partition-size, false --param-persistence-threshold, true neither",
       {"fsdp-reshard-after-forward", "reshard-after-forward"}},
      {"--zero-stage 0 is no_shard, 1 optim, 2 optim_grads, 3 optim_grads_params",
       {"data-parallel-sharding-strategy"}},
      {"all ranks meet in every step", {"diloco", "semi-sync-method", "sync-steps"}},
      {"all weights are trained, and there are no adapters",
       {"lora-alpha", "lora-r", "lora-rank", "peft", "use-lora", "use-peft"}},
      {"a DeepSpeed JSON is read by --config FILE", {"deepspeed", "ds-config"}},
      {"metrics are in the trace, and in --json FILE; zpp-validate reads both",
       {"logging-dir", "report-to", "tensorboard", "wandb", "wandb-project"}},
      {"--weight-codec fp8e4m3 sends weights in 8 bits; products are in fp32, bf16 or fp16",
       {"float8", "fp8", "fp8-format"}},
      {"attention is cuDNN's, which is fused, wherever it takes the shape",
       {"attn-implementation", "flash-attention", "use-flash-attn"}},
      {"--data-source llmc or megatron reads files of tokens: docs/howto/data.md",
       {"tokenizer", "tokenizer-model", "tokenizer-type"}},
      {"nothing is compiled while it runs", {"compile", "torch-compile"}}};
  return all;
}

}  // namespace

std::string about_foreign_flag(const std::string& flag) {
  for (const Foreign& each : foreign_flags()) {
    if (std::ranges::find(each.flags, flag) != each.flags.end()) return std::string(each.about);
  }
  return "";
}

}  // namespace zeropp::app

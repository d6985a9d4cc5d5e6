#include "lib/config/other_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/nearest.hpp"
#include "lib/base/text.hpp"

namespace zeropp::config {

namespace {

/// Text of a flag as names are compared: without dashes in front, and a dash for each underscore.
std::string called(std::string_view flag) {
  std::string text(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::ranges::replace(text, '_', '-');
  return text;
}

bool is_flag(std::string_view here) {
  return here.starts_with("--") && here.find(' ') == std::string_view::npos;
}

bool has(const OtherNames& row, std::string_view name) {
  return std::ranges::find(row.names, name) != row.names.end();
}

}  // namespace

const std::vector<OtherNames>& other_names() {
  // A name may stand in several rows: the first counts whose flag the program has, else the text.
  static const std::vector<OtherNames> table{
      {"--zero-stage",
       {"distributed-optimizer", "fsdp", "fsdp2", "sharding-strategy", "use-distributed-optimizer",
        "use-megatron-fsdp", "use-torch-fsdp2", "zero", "zero3"}},
      {"--zero-quantized-weights", {"qwz"}},
      {"--zero-hpz-partition-size", {"hpz"}},
      {"--zero-quantized-gradients", {"qgz"}},
      {"--shard-group-size",
       {"data-parallel-replicate-degree", "data-parallel-shard-degree", "dp-replicate-degree",
        "dp-replicate-size", "dp-shard-degree", "dp-shard-size", "hybrid", "hybrid-sharding",
        "hsdp", "mics", "num-distributed-optimizer-instances"}},
      {"--param-persistence-threshold", {"keep-weights", "no-reshard-after-forward"}},
      {"--overlap-comm", {"overlap-grad-reduce", "overlap-param-gather"}},
      {"--gradient-dtype",
       {"accumulate-allreduce-grads-in-fp32", "grad-reduce-in-fp32", "main-grads-dtype",
        "reduce-dtype"}},
      {"--weight-codec", {"fp4-param-gather", "fp8-param-gather"}},
      {"--offload-optimizer",
       {"cpu-offload", "fsdp-offload-params", "offload", "optimizer-cpu-offload"}},
      {"--bf16", {"precision", "mixed-precision", "dtype", "torch-dtype", "param-dtype", "amp"}},
      {"--micro-batch-size", {"per-device-train-batch-size"}},
      {"--gradient-accumulation-steps",
       {"accumulation-steps", "accumulate-grad-batches", "grad-accum", "microbatches",
        "num-micro-batches", "num-microbatches"}},
      {"--train-iters",
       {"steps", "max-steps", "num-steps", "iterations", "max-iters", "epochs", "num-epochs",
        "num-train-epochs"}},
      {"--eval-interval", {"eval-every", "eval-steps"}},
      {"--log-interval", {"log-every", "log-steps", "logging-steps"}},
      {"--optimizer", {"optim"}},
      {"AdamW", {"optimizer=fusedadam", "optimizer=adamw_torch", "optimizer=adamw_torch_fused"}},
      {"AdamW, and --offload-optimizer cpu", {"optimizer=cpuadam", "optimizer=deepspeedcpuadam"}},
      {"AdamW, and --moments int8", {"optimizer=adamw_8bit", "optimizer=adamw8bit"}},
      {"Adam, and --moments int8", {"optimizer=adam8bit"}},
      {"--lr", {"learning-rate"}},
      {"--adam-beta1", {"beta1", "betas", "adam-betas"}},
      {"--adam-beta2", {"beta2"}},
      {"--adam-eps", {"epsilon", "adam-epsilon"}},
      {"--clip-grad", {"grad-clip", "gradient-clip-val"}},
      {"--scheduler", {"lr-scheduler", "lr-scheduler-type", "lr-schedule", "lr-decay-style"}},
      {"--lr-warmup-iters", {"warmup", "warmup-iters", "warmup-steps", "num-warmup-steps"}},
      {"--model-preset", {"preset", "model-size"}},
      {"--model", {"model-size"}},
      {"--num-layers", {"layers", "n-layer"}},
      {"--hidden-size", {"hidden", "n-embd", "d-model"}},
      {"--num-attention-heads", {"heads", "num-heads", "n-head"}},
      {"--seq-length", {"seq-len", "context-length", "max-length", "max-seq-length"}},
      {"--vocab-size", {"vocab"}},
      {"--recompute-activations", {"activation-checkpointing"}},
      {"--data-path", {"data", "dataset"}},
      {"--save", {"checkpoint", "checkpoint-dir", "save-dir"}},
      {"--load", {"load-checkpoint", "resume", "resume-from-checkpoint"}},
      {"--save-interval", {"save-every", "save-steps"}},
      {"--backend", {"device"}},
      {"host", {"backend=cpu", "backend=gloo"}},
      {"cuda", {"backend=gpu"}},
      {"cuda, and --transport nccl", {"backend=nccl"}},
      {"host or cuda, and --transport mpi", {"backend=mpi"}},
      {"--transport", {"ddp-backend", "dist-backend", "distributed-backend"}},
      {"mpi", {"transport=gloo"}},
      {"--nodes", {"nnodes", "num-nodes"}},
      {"--ranks-per-node", {"gpus", "num-gpus", "nproc-per-node"}},
      {"--node-size", {"gpus-per-node", "ranks-per-node"}},
      {"--filter", {"kernel", "kernels"}},

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
      {"nothing is compiled while it runs", {"compile", "torch-compile"}},
      {"zpp_plan has it; here a model has its sizes: --num-layers, --hidden-size, "
       "--num-attention-heads",
       {"hf-config", "model-preset"}},
      {"zpp_plan has it; here --backend cuda takes the GPUs that there are", {"cluster", "gpu"}}};
  return table;
}

bool is_called(const Option& option, std::string_view name) {
  return std::ranges::any_of(other_names(), [&](const OtherNames& row) {
    return row.here == option.flag && has(row, name);
  });
}

std::string hint_for_flag(const std::string& typed, const std::vector<std::string>& flags,
                          const std::vector<Option>& options) {
  std::vector<std::string> names;
  std::vector<std::string> answers;
  const auto add = [&](std::string_view name, std::string_view answer) {
    names.push_back(called(name));
    answers.emplace_back(answer);
  };
  // The first of equal names counts: own ones, those of other programs, last parts of keys.
  for (const Option& option : options) {
    add(option.flag, option.flag);
    for (const std::string& other : option.other_flags) add(other, option.flag);
  }
  for (const std::string& flag : flags) {
    if (flag.starts_with("--")) add(flag, flag);
  }
  for (const bool of_flags : {true, false}) {
    for (const OtherNames& row : other_names()) {
      const bool known = std::ranges::find(flags, row.here) != flags.end();
      if (of_flags ? !known : is_flag(row.here)) continue;
      for (const std::string_view name : row.names) {
        if (name.find('=') == std::string_view::npos) add(name, row.here);
      }
    }
  }
  for (const Option& option : options) {
    add(option.path.substr(option.path.rfind('.') + 1), option.flag);
  }
  const std::string meant = alike(called(typed), names);
  if (meant.empty()) return "";
  const auto place = std::ranges::find(names, meant) - names.begin();
  const std::string& answer = answers[static_cast<std::size_t>(place)];
  return is_flag(answer) ? "nearest: " + answer : answer;
}

std::string hint_for_value(const Option& option, const std::string& text) {
  const std::string given = fmt::format("{}={}", called(option.flag), lower(text));
  for (const OtherNames& row : other_names()) {
    if (has(row, given)) return fmt::format(" (give {})", row.here);
  }
  const std::string meant = alike(text, choices_of(option));
  return meant.empty() ? "" : fmt::format(" (nearest: {})", meant);
}

}  // namespace zeropp::config

// The whole configuration of the trainer, as plain values. lib/config/options.cpp says where each
// comes from; resolve() (lib/config/resolve.hpp) fills what other values decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/optim/options.hpp"
#include "lib/checkpoint/options.hpp"
#include "lib/comm/options.hpp"
#include "lib/data/options.hpp"
#include "lib/model/options.hpp"
#include "lib/zero/plan/options.hpp"

namespace zeropp::config {

/// Far beyond any use: every micro-step is planned ahead, in memory.
constexpr std::size_t kMostAccumulationSteps = 4096;

struct TrainConfig {
  /// resolve() sets zero.compute, zero.accumulation_steps and zero.seed from the values below.
  zero::Options zero;
  model::Options model;
  data::Options data;
  optim::Options optimizer;
  bool adam_w_mode = false;  ///< Adam decays weights as AdamW does, which resolve() makes of it
  bool bf16 = false;         ///< compute in bf16; neither: in fp32
  bool fp16 = false;         ///< compute in fp16, with zero.loss_scale

  /// train_batch_size = micro batch * accumulation steps * world size; 0: follows from the others.
  std::size_t train_batch_size = 0;                ///< sequences a step, over all ranks
  std::size_t train_micro_batch_size_per_gpu = 0;  ///< sequences a rank and micro-step
  std::size_t gradient_accumulation_steps = 0;

  checkpoint::Options checkpoint;

  /// Choices that resolve() makes where they are empty (`auto`).
  std::optional<Backend> backend = {};
  std::optional<comm::Transport> transport = {};
  std::optional<comm::CopyEngines> copy_engines = {};
  /// NCCL communicators that carry what a rail sends; 0: by the network (resolve())
  std::size_t rail_lanes = 0;
  /// JSON of zpp_sweep that `auto` chooses algorithms by; empty: by rules (resolve())
  bool autotune_gemm = false;  ///< the GPU's matrix products run by what was measured as fastest
  /// bytes that a rank may take on its device: what /memory has without `offloaded_*`; 0: no limit
  std::size_t device_memory_limit = 0;
  double gpu_sampling = 1;        ///< seconds between readings of each rank's GPU; 0: none
  std::size_t node_size = 0;      ///< ranks per node, declared; 0: nodes as the machine has them
  std::size_t virtual_ranks = 0;  ///< that one process runs; 0: the ranks that were started
  std::size_t seed = 1;
  std::size_t train_steps = 10;
  std::size_t evaluation_interval = 0;  ///< steps between evaluations; 0: none
  std::size_t evaluation_batches = 4;   ///< micro-batches a rank and evaluation
  std::size_t log_interval = 10;        ///< steps between progress lines
  bool hash_parameters = true;          ///< the trace holds the hash of the final weights
};

/// Dtype of weights and of the values computed from them.
inline Dtype compute_dtype(const TrainConfig& config) {
  return config.bf16 ? Dtype::bf16 : config.fp16 ? Dtype::fp16 : Dtype::fp32;
}

}  // namespace zeropp::config

// Operations of a schedule on weights and gradients: each function enqueues one operation on its
// stream, in the arena memory that the schedule gave it, and leaves its result in the views of
// RankMemory. Those that start a collective return the rest of it (executor.hpp). The order is the
// schedule's, the waiting the executor's. Owns nothing. ZeRO (arXiv 1910.02054), ZeRO++ (arXiv
// 2306.10209) sections 3.1-3.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/zero/communication/weight_gather.hpp"
#include "lib/zero/engine/codec_controller.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/executor.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"

namespace zeropp::zero {

/// Micro-step m's batch; valid until the next call.
using BatchSource = std::function<Batch(std::size_t micro_step)>;

class StepOperations {
 public:
  /// References outlive this.
  StepOperations(const EngineContext& context, RankMemory& memory, RankOptimizer& optimizer,
                 CodecController& codecs)
      : context_(context), memory_(memory), optimizer_(optimizer), codecs_(codecs) {}

  /// Makes an operation that reads a unit's weights, or writes its gradients, begin after the
  /// unit's latest update.
  void wait_for_updates(const Op& op) const;

  // `phase`: what the trace counts a gather in; of a training step, the operation tells it.

  /// All-gathers a unit's weights over all ranks, through the codec of weights.
  Finish gather(const Op& op, Phase phase);
  Finish gather(const Op& op) { return gather(op, training_phase(op)); }
  /// All-gathers a unit's weights in the hpZ group, from secondary shards of this version.
  Finish gather_secondary(const Op& op, Phase phase);
  Finish gather_secondary(const Op& op) { return gather_secondary(op, training_phase(op)); }
  /// Brings the own secondary shard of a unit to the weights of now, along the rail.
  Finish exchange(const Op& op, Phase phase);
  Finish exchange(const Op& op) { return exchange(op, training_phase(op)); }
  /// Cuts the own secondary shard from a unit that was gathered over all ranks.
  void keep_secondary(const Op& op);
  /// Begins a micro-batch with the first layer. `loss_scale`: of training; empty: evaluation, which
  /// keeps nothing for backward.
  void forward(const Op& op, const BatchSource& batch, std::optional<double> loss_scale);
  void clear_gradients(const Op& op);
  void backward(const Op& op);
  /// Reduce-scatters a bucket, and adds its sum to the gradient shards.
  Finish reduce(const Op& op);
  void gather_sum(const Op& op);
  void reduce_over_replicas(const Op& op);
  void gather_over_replicas(const Op& op);
  /// All-gathers updated weights, or initial ones, into the resident weights: whole, or how they
  /// differ from these.
  void refresh(const Op& op);

 private:
  /// Whether the resident weights hold what the differences of a refresh can be added to.
  [[nodiscard]] bool refreshes_by_differences(const Op& op) const;
  void read_as_fp16(View weights, StreamHandle on) const;
  /// Adds what a reduction summed to the gradient shards.
  void accumulate(const Op& op, StreamHandle on) const;
  [[nodiscard]] std::vector<ConstView> weights_of(std::size_t layer) const;
  /// Keys of the draws of a bucket's reductions.
  [[nodiscard]] std::uint64_t reduction_draws(const Op& op) const;
  [[nodiscard]] std::uint64_t replica_draws(const Op& op) const;
  [[nodiscard]] StreamHandle stream_of(const Op& op) const {
    return context_.executor.stream(op.stream).handle();
  }

  const EngineContext& context_;
  RankMemory& memory_;
  RankOptimizer& optimizer_;
  CodecController& codecs_;
};

}  // namespace zeropp::zero

// Operations of a schedule on weights and gradients: each function enqueues one operation on its
// stream, in the arena memory that the schedule gave it, and leaves its result in the views of
// RankMemory. A function that starts a collective returns the rest of it (executor.hpp). The order
// is the schedule's, the waiting the executor's. Owns nothing. ZeRO (arXiv 1910.02054), ZeRO++
// (arXiv 2306.10209) sections 3.1-3.3.
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
      : context_(context),
        memory_(memory),
        optimizer_(optimizer),
        codecs_(codecs),
        refreshed_(context.units().size()) {}

  /// Makes an operation that reads a unit's weights, or writes its gradients, begin after the
  /// unit's latest update, and a layer's forward after the latest refreshes of its units: `clock`
  /// counts that as exposed.
  void wait_for_earlier(const Op& op, StepClock& clock) const;

  // `phase` is the phase that the trace counts a gather in. In a training step it is
  // training_phase() of the operation.

  /// All-gathers a unit's weights over all ranks, through the codec of weights.
  Finish gather(const Op& op, Phase phase);
  Finish gather(const Op& op) { return gather(op, training_phase(op)); }
  /// All-gathers a unit's weights in the hpZ group, from secondary shards that hold the current
  /// version of the weights.
  Finish gather_secondary(const Op& op, Phase phase);
  Finish gather_secondary(const Op& op) { return gather_secondary(op, training_phase(op)); }
  /// Updates the own secondary shard of a unit to the current version of the weights, by an
  /// all-gather along the rail: of differences, or of whole weights.
  Finish exchange(const Op& op, Phase phase);
  Finish exchange(const Op& op) { return exchange(op, training_phase(op)); }
  /// Cuts the own secondary shard from a unit that was gathered over all ranks.
  void keep_secondary(const Op& op);
  /// Runs a layer's forward; the first layer begins the micro-batch. `loss_scale` is that of a
  /// training step; without one the layer runs for an evaluation, which keeps nothing for backward.
  void forward(const Op& op, const BatchSource& batch, std::optional<double> loss_scale);
  /// Gives a unit its memory for whole gradients, UnitPartition::padded elements of
  /// UnitPartition::gradients, and zeros what no tensor covers there: backward writes the rest.
  void clear_gradients(const Op& op);
  /// Runs a layer's backward, which writes the whole gradients of its units or, where another layer
  /// has written them in this micro-step, adds to them.
  void backward(const Op& op);
  /// Reduce-scatters a bucket, and adds its sum, fp32, to the gradient shards.
  Finish reduce(const Op& op);
  /// All-gathers a bucket's sum, fp32, from all ranks into the local gradients (stage 0).
  void gather_sum(const Op& op);
  /// Reduce-scatters a bucket's gradient shards, fp32, over the shard groups into an image in the
  /// arena.
  void reduce_over_replicas(const Op& op);
  /// All-gathers the sums over all shard groups, which that image has, into the gradient shards.
  void gather_over_replicas(const Op& op);
  /// All-gathers a unit's updated or initial weights into the resident weights: whole weights, or
  /// their differences from the resident ones.
  Finish refresh(const Op& op);

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
  std::vector<Event> refreshed_;  ///< by unit: its latest refresh
};

}  // namespace zeropp::zero

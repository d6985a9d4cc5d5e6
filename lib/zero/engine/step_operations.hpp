// Operations of a schedule: run() is the one place that says what each kind does. Work is enqueued
// on the operation's stream, in the arena memory that the schedule gave it; results are left in the
// views of RankMemory. An operation that starts a collective returns the rest of it (executor.hpp).
// The order is the schedule's; events are the executor's, but for what lies outside of the
// schedule. Owns the events of refreshes. ZeRO (arXiv 1910.02054), ZeRO++ (arXiv 2306.10209)
// sections 3.1-3.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/zero/communication/weight_collectives.hpp"
#include "lib/zero/engine/codec_controller.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/executor.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/optimizer/gradient_norm.hpp"

namespace zeropp::zero {

/// Micro-step m's batch; valid until the next call.
using BatchSource = std::function<Batch(std::size_t micro_step)>;

/// Arguments of the operations of one schedule.
struct StepRun {
  BatchSource batch{};       ///< of forward
  double loss_scale = 1;     ///< that backward runs with
  std::uint64_t t = 0;       ///< number of the optimizer's step
  float gradient_scale = 1;  ///< makes sums of gradients the mean gradient of the unscaled loss
  double clip = 1;           ///< factor of the mean gradient in updates
};

class StepOperations {
 public:
  /// References outlive this.
  StepOperations(const EngineContext& context, RankMemory& memory, RankOptimizer& optimizer,
                 CodecController& codecs, GradientNorm& norm)
      : context_(context),
        memory_(memory),
        optimizer_(optimizer),
        codecs_(codecs),
        norm_(norm),
        refreshed_(context.units().size()),
        escapes_(context.units().size() * sizeof(codec::Escapes), context.device.staging()) {}

  /// Makes an operation that reads a unit's weights, or writes its gradients, begin after the
  /// unit's latest update, and a layer's forward after the latest refreshes of its units: `clock`
  /// counts that as exposed.
  void wait_for_earlier(const Op& op, StepClock& clock) const;
  /// Runs an operation, or starts it and returns the rest.
  Finish run(const Op& op, const StepRun& with);

 private:
  /// All-gathers a unit's weights over all ranks, through the codec of weights.
  Finish gather(const Op& op);
  /// All-gathers a unit's weights in the hpZ group, from secondary shards that hold the current
  /// version of the weights.
  Finish gather_secondary(const Op& op);
  /// Counts how the weights of all units differ from their copies, and agrees with all ranks on the
  /// shapes of the exchanges that follow. Waits for the updates; the host waits too.
  void agree(const Op& op);
  /// Updates the own secondary shard of a unit to the current version of the weights, by an
  /// all-gather along the rail: of differences, or of whole weights.
  Finish exchange(const Op& op);
  /// Cuts the own secondary shard from a unit that was gathered over all ranks.
  void keep_secondary(const Op& op);
  /// Runs a layer's forward; the first layer begins the micro-batch. An evaluation keeps nothing
  /// for backward.
  void forward(const Op& op, const StepRun& with);
  /// Gives a unit its memory for whole gradients, UnitPartition::padded elements of
  /// UnitPartition::gradients, and zeros what no tensor covers there: backward writes the rest.
  void clear_gradients(const Op& op);
  /// Runs a layer's backward, which writes the whole gradients of its units or, where another layer
  /// has written them in this micro-step, adds to them.
  void backward(const Op& op);
  /// Reduce-scatters a bucket, and adds its sum, fp32, to the gradient shards. Where units are
  /// updated during backward, sums the squares of those that the bucket completes: the update that
  /// follows frees their gradients.
  Finish reduce(const Op& op, const StepRun& with);
  /// All-gathers a bucket's sum, fp32, from all ranks into the local gradients (stage 0).
  void gather_sum(const Op& op);
  /// Reduce-scatters a bucket's gradient shards, fp32, over the shard groups into an image in the
  /// arena, or all-gathers the sums that the image has into the gradient shards.
  void over_replicas(const Op& op);
  /// Steps the optimizer of a unit.
  void update(const Op& op, const StepRun& with);
  /// All-gathers a unit's updated or initial weights into the resident weights: whole weights, or
  /// their differences from the resident ones.
  Finish refresh(const Op& op);

  /// Whether copies hold what differences can be added to, with weight differences: the secondary
  /// shards or, of an operation after or before all steps, the resident weights.
  [[nodiscard]] bool sends_differences(const Op& op) const;
  void read_as_fp16(View weights, StreamHandle on) const;
  void plant_faults(const Op& op) const;
  /// Adds what a reduction summed to the gradient shards.
  void accumulate(const Op& op, StreamHandle on) const;
  [[nodiscard]] std::vector<ConstView> weights_of(std::size_t layer) const;
  [[nodiscard]] const std::vector<Segment>& segments_of(const Op& op) const {
    return context_.plan.buckets()[op.index].segments;
  }
  [[nodiscard]] StreamHandle stream_of(const Op& op) const {
    return context_.executor.stream(op.stream).handle();
  }
  /// Run of the operation's collective, in what the operation has of its workspace.
  [[nodiscard]] collective::Run run_in(std::span<std::byte> workspace, const Op& op,
                                       std::uint64_t draws = 0) const {
    return {workspace, stream_of(op), draws, name_of(op.phase)};
  }
  /// Key of the draws of a gather of weights of this version.
  [[nodiscard]] std::uint64_t draws_of_weights(const Op& op, std::uint64_t version) const;
  /// Key of the draws of a bucket's reductions.
  [[nodiscard]] std::uint64_t draws_of_gradients(const Op& op) const;

  const EngineContext& context_;
  RankMemory& memory_;
  RankOptimizer& optimizer_;
  CodecController& codecs_;
  GradientNorm& norm_;
  std::vector<Event> refreshed_;  ///< by unit: its latest refresh
  Buffer escapes_;                ///< codec::Escapes of each unit, on the host
};

}  // namespace zeropp::zero

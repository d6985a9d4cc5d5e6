// One training step, in order: TrainingStep::run() is the place to read it. Two schedules run, that
// of the gradients and that of the update. Between them comes the decision that needs all
// gradients: their norm, whether the step is skipped, and how much is clipped. The schedules say
// which layer comes when (lib/zero/plan/schedule.hpp), the executor makes streams wait,
// StepOperations says what each operation does. Owns the loss scale, the norm's sums and the
// clocks. Collective: every rank calls every function, in one order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/comm/traffic.hpp"
#include "lib/device/buffer.hpp"
#include "lib/zero/engine/codec_controller.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/file_counters.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/engine/step_clock.hpp"
#include "lib/zero/engine/step_guard.hpp"
#include "lib/zero/engine/step_operations.hpp"
#include "lib/zero/optimizer/gradient_norm.hpp"
#include "lib/zero/plan/loss_scale.hpp"

namespace zeropp::zero {

/// Result of a step, on this rank.
struct StepResult {
  double loss = 0;  ///< nats per token, mean over this rank's micro-steps
  /// Global norm of the mean gradient, without the loss's scale, before clipping; NaN or Inf when
  /// skipped.
  double grad_norm = 0;
  double loss_scale = 1;      ///< that backward ran with
  double learning_rate = 0;   ///< of this step; where it is skipped, of the one that is taken next
  bool exhausted = false;     ///< skipped at the smallest loss scale: training cannot continue
  bool skipped = false;       ///< a non-finite gradient on some rank: no rank stepped
  bool damaged = false;       ///< skipped, but backward had updated weights: they are of no use
  std::string corruption;     ///< that verifying the step found, in one line, on rank 0 with hosts
  comm::Bytes sent;           ///< counted
  comm::Bytes predicted;      ///< closed form
  double time_forward = 0;    ///< seconds on the compute stream
  double time_backward = 0;   ///< seconds until the last reduction is done
  double time_exposed = 0;    ///< of both, that compute waited for gathers, those after the last
                              ///< update included, and reductions, at stage 3 also for the update
                              ///< before a unit's first gather; on the host, which has one thread,
                              ///< with the codec work of these
  double time_gather = 0;     ///< in which gathers of weights were at work, beside compute or not
  double time_reduce = 0;     ///< in which reductions of gradients were at work
  double time_agreement = 0;  ///< in which ranks agreed on the sizes of exact differences
};

/// Times of what followed the gradients of a step, in seconds, on this rank; zero where the step
/// was skipped.
struct UpdateTimes {
  double optimizer = 0;  ///< the optimizer was at work: on a GPU beside the next step's begin
  double offload = 0;    ///< the host was busy with, or waited for, the part that is offloaded
  double gather = 0;     ///< updated weights were gathered (stages 1 and 2, units that persist): on
                         ///< a GPU beside the next step's begin
  double agreement = 0;  ///< ranks agreed on the sizes of exact differences
};

class TrainingStep {
 public:
  /// References outlive this.
  TrainingStep(const EngineContext& context, RankMemory& memory, RankOptimizer& optimizer,
               CodecController& codecs);

  /// Takes one optimizer step, or skips it. `before` (may be null) gets the times of what followed
  /// the gradients of the step before, which this one has waited for.
  StepResult run(const BatchSource& batch, UpdateTimes* before);
  /// Times of what followed the gradients of the last step; waits for it.
  [[nodiscard]] UpdateTimes update_times() const;
  /// Mean loss of one held-out batch on this rank, nats per token.
  double evaluate(const Batch& batch);

  [[nodiscard]] const LossScale& loss_scale() const { return loss_scale_; }
  /// The guard of the steps; null without Options::verify_interval.
  [[nodiscard]] StepGuard* guard() { return guard_ ? &*guard_ : nullptr; }
  [[nodiscard]] const StepGuard* guard() const { return guard_ ? &*guard_ : nullptr; }
  /// Sets the loss scale between steps; the errors that error feedback keeps follow.
  void set_loss_scale(const LossScale::State& state);

 private:
  /// Codecs, initial weights and counters, before a step's first operation.
  StepResult begin();
  /// Counts and the next loss scale, after its last.
  void end(StepResult& result);
  /// Gathers the weights that stay whole, at stages 1 and 2 and of units that persist, where they
  /// do not hold the current version: before the first use, and after other weights were set.
  void gather_initial();
  void execute(const Schedule& schedule, const StepRun& with, StepClock& clock);
  /// Enqueues the sums of squares of the mean gradient on the compute stream.
  void start_norm();
  /// The loss since it was last taken, and whatever else the compute stream was to bring: the
  /// host's one wait for a whole step, where a hang is noticed.
  [[nodiscard]] double wait_for_loss();
  /// Norm of the mean gradient, the same on every rank: squares by canonical shard, added in shard
  /// order. Called after the wait for what was started of it.
  [[nodiscard]] double global_norm() const;
  [[nodiscard]] double clip_factor(double norm) const;
  /// Factor that makes the sums of gradients the mean gradient of the unscaled loss.
  [[nodiscard]] float gradient_scale() const;
  [[nodiscard]] UpdateTimes read_update_times() const;
  [[nodiscard]] comm::Bytes sent() const;

  const EngineContext& context_;
  RankMemory& memory_;
  RankOptimizer& optimizer_;
  CodecController& codecs_;
  LossScale loss_scale_;
  FileCounters files_;
  GradientNorm norm_;
  StepOperations operations_;
  std::optional<StepGuard> guard_;
  Buffer loss_;      ///< one double that the compute stream brings to the host
  StepClock clock_;  ///< of the gradients
  StepClock update_clock_;
  double updated_in_backward_ = 0;  ///< seconds of the last step's updates that were part of it
  comm::Bytes sent_before_;         ///< the step
  double host_seconds_before_ = 0;  ///< the update: RankOptimizer::host_seconds()
};

}  // namespace zeropp::zero

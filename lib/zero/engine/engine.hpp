// The ZeRO engine: one rank's part of sharded training, as programs see it. A facade: what a step
// does is training_step.hpp, what a checkpoint keeps checkpoint_state.hpp, which codecs run
// codec_controller.hpp, in which order executor.hpp by the schedule; a ZeRO stage is a preset of
// what is sharded. It knows a model as units and layers only. Collective: every rank calls every
// function, in the same order. Throws Error; a rank that throws leaves the others waiting, so the
// caller must end the job. Source: ZeRO (arXiv 1910.02054) stages, ZeRO++ (arXiv 2306.10209)
// sections 3.1-3.3.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lib/checkpoint/saver.hpp"
#include "lib/comm/groups.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/engine/checkpoint_state.hpp"
#include "lib/zero/engine/codec_controller.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/executor.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/engine/training_step.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// Groups and control plane that an engine communicates with, all of the same ranks. `gather` and
/// `reduce` may be the same groups; where they are different ones, neither's collectives wait for
/// the other's.
struct EngineGroups {
  comm::Groups& gather;  ///< groups that weights are gathered in
  comm::Groups& reduce;  ///< groups, of the same transport, that gradients are reduced in
  comm::Control& control;
};

/// Progress of a run, which a checkpoint keeps beside its arrays.
struct SavedProgress {
  StepCounts steps;                  ///< after which it was saved
  LossScale::State loss_scale = {};  ///< the errors of error feedback are scaled by it
  bool searches_loss_scale = false;  ///< the run that saved it had a dynamic loss scale
};

class Engine {
 public:
  /// `options` are resolved and validated (no "auto"). `model`, `recorder` and what `groups` name
  /// outlive the engine. Does not communicate: a rank that runs out of memory here can still tell
  /// the others.
  Engine(const Options& options, const optim::Options& optimizer, UnitModel& model,
         const EngineGroups& groups, const Device& device, trace::Recorder& recorder);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Withdraws the collectives that an error left under way before any memory that they use is
  /// freed.
  ~Engine();

  /// Prepares the first step, once; step() and evaluate() see to it where nobody did. Collective.
  /// All ranks throw AgreedError: usage where adaptive bits cannot keep their budget, environment
  /// where a rank cannot register its memory for copy engines.
  void prepare();
  /// Takes one optimizer step. `batch(m)` is micro-step m's batch; valid until the next call. With
  /// Options::measure_errors it leaves rows in the recorder's `errors`, the same on every rank.
  /// `before` gets the times of what followed the gradients of the step before, which this one has
  /// waited for.
  StepResult step(const BatchSource& batch, UpdateTimes* before = nullptr);
  /// Times of what followed the gradients of the last step; waits for it.
  [[nodiscard]] UpdateTimes update_times() const { return step_.update_times(); }
  /// Mean loss of one held-out batch on this rank, nats per token.
  double evaluate(const Batch& batch);

  /// SHA-256 over the fp32 master weights, by canonical shard: the same at every stage. On every
  /// rank.
  [[nodiscard]] std::string parameters_hash() const;
  /// SHA-256, by node or, at stages 1 and 2, by rank, over the copies of the weights that weight
  /// differences are added to: on rank 0, and empty elsewhere and without weight differences.
  [[nodiscard]] std::vector<std::string> copy_hashes() const;
  /// The fp32 master weights of a unit, flat (Unit::count elements), on rank 0; empty elsewhere.
  /// For export and tests: through the control plane, one unit at a time.
  [[nodiscard]] std::vector<float> gather_master(std::size_t unit) const;
  /// This rank's part of a checkpoint (checkpoint_state.hpp). Waits for the work before. The values
  /// lie in `memory`, which becomes larger where it has to: kept from one checkpoint to the next,
  /// it is not taken anew while training waits.
  [[nodiscard]] std::vector<checkpoint::HostSlice> state(Buffer& memory) const {
    return state_.slices(memory);
  }
  /// Makes `memory` as large as state() needs it, before the work begins.
  void reserve_state(Buffer& memory) const { state_.reserve(memory); }
  [[nodiscard]] StepCounts steps() const { return progress_.steps; }
  /// Resumes from a state that any number of ranks saved, at any stage, and returns which parts of
  /// it this run could use. Called before the first step, with adaptive bits after prepare().
  /// `read` fills the given memory with a slice of the saved arrays, `has` says which arrays there
  /// are. The loss scale is the saved one where both runs have a dynamic one, else that of this
  /// run. Without `has`, master weights and moments alone are read, the moments in this run's form,
  /// and error feedback begins anew.
  Restored restore(const SavedProgress& saved, const ReadSlice& read, const HasSlice& has = {});
  /// Continues with other weights: reads "UNIT/master" only. Called before the first step or
  /// between steps.
  void set_weights(const ReadSlice& read);
  [[nodiscard]] const LossScale& loss_scale() const { return step_.loss_scale(); }
  /// Continues with another loss scale, between steps; the errors of error feedback follow.
  void set_loss_scale(const LossScale::State& state) { step_.set_loss_scale(state); }
  /// Errors that error feedback keeps, in the device's memory; valid until the next step. Empty
  /// without error feedback. Waits for the work on them.
  [[nodiscard]] std::vector<NamedState> error_feedback() const { return state_.error_feedback(); }
  /// Plan of a step, which is made before the first step.
  [[nodiscard]] const StepPlan& plan() const { return plan_.step; }
  /// Memory of the engine's state, of its arena, and of the model itself.
  [[nodiscard]] std::vector<MemoryReport> memory() const;

 private:
  Options options_;
  ComputeDevice device_;
  Executor executor_;
  RankPlan plan_;
  std::unique_ptr<Collectives> collectives_;
  Progress progress_;
  EngineContext context_;
  RankMemory memory_;
  std::vector<std::unique_ptr<comm::RegisteredMemory>>
      registered_;  ///< the arena, with both groups
  RankOptimizer optimizer_;
  CodecController codecs_;
  CheckpointState state_;
  TrainingStep step_;
  bool prepared_ = false;
};

}  // namespace zeropp::zero

// One training run as every program that trains does it: device, groups, batches, model, engine,
// and the loop of steps and evaluations. Collective: every rank of the context's world runs the
// same calls. Owns all but the tokens; what was recorded is in recorder(). Prints and writes
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/app/app.hpp"
#include "lib/config/train_config.hpp"
#include "lib/data/sampler.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/engine/engine.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::train {

/// Callbacks by which a program follows a run. Every rank calls them, in the same order; empty ones
/// are not called.
struct Watch {
  /// Decides, before each step, whether the run ends here (true). `steps_done`: steps so far.
  /// `interrupt` is the signal that any rank had received when the step before ended
  /// (lib/app/interrupt.hpp), or 0. It is the same on all ranks, and the answer has to be.
  std::function<bool(std::uint64_t steps_done, int interrupt)> end_early;
  std::function<void(std::uint64_t steps_done, const trace::StepRow&)> stepped;
  std::function<void(const trace::EvaluationRow&)> evaluated;
};

class Session {
 public:
  /// `config` is resolved for the context's ranks; it, the context and the tokens outlive the
  /// session. Throws Error: memory, GPU, tokens shorter than a sequence.
  Session(const config::TrainConfig& config, const app::Context& context,
          const data::TokenSource& tokens);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs steps [first, train_steps), with an evaluation before the first step, after the last, and
  /// after every evaluation_interval steps where that is set. Call it once.
  void run(const Watch& watch, std::uint64_t first = 0);

  [[nodiscard]] trace::Recorder& recorder() { return recorder_; }
  [[nodiscard]] const zero::Engine& engine() const { return *engine_; }
  [[nodiscard]] zero::Engine& engine() { return *engine_; }
  [[nodiscard]] const zero::UnitModel& model() const { return *model_; }
  [[nodiscard]] const data::Sampler& sampler() const { return *sampler_; }

 private:
  void make_groups();
  /// Runs one step. Returns whether training can continue.
  [[nodiscard]] bool step(std::uint64_t step);
  /// Adds the times of the norm and the update to the last recorded step.
  void keep(const zero::UpdateTimes& times);
  /// Records the held-out loss. A signal cuts it off, and nothing is recorded, unless it is the
  /// last evaluation, with which the run is whole.
  void evaluate(std::uint64_t steps_done, const Watch& watch);

  const config::TrainConfig& config_;
  const app::Context& context_;
  data::DataRank data_rank_;
  ComputeDevice device_;
  trace::Recorder recorder_;
  comm::Groups groups_;
  comm::Groups reduce_groups_;  ///< the same ranks: reductions do not wait for gathers
  std::unique_ptr<data::Sampler> sampler_;
  std::unique_ptr<zero::UnitModel> model_;
  std::unique_ptr<zero::Engine> engine_;
  data::TokenBatch batch_;
  int interrupt_ = 0;  ///< signal that any rank had got when the ranks last agreed, or 0
  std::size_t evaluation_batches_ = 0;  ///< micro-batches a rank and evaluation, as the data allows
};

}  // namespace zeropp::train

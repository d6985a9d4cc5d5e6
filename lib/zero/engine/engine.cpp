#include "lib/zero/engine/engine.hpp"

#include <utility>

#include "lib/zero/engine/master_weights.hpp"
#include "lib/zero/engine/memory_report.hpp"

namespace zeropp::zero {

namespace {

/// Rows of the trace: what is gathered and sharded.
void record_units(const RankPlan& plan, const std::vector<Unit>& units, trace::Recorder& recorder) {
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const UnitPartition& unit = plan.units[u];
    trace::UnitRow row{units[u].name, unit.parameters, unit.flat, unit.padded, unit.shard};
    for (const Op& op : plan.step.step.stale.ops) {
      const bool gathers = op.kind == OpKind::gather || op.kind == OpKind::gather_secondary;
      if (!gathers || op.index != u || op.micro_step > 0) continue;
      ++(op.phase == Phase::backward ? row.gathers_backward : row.gathers_forward);
    }
    recorder.units.push_back(row);
  }
}

}  // namespace

Engine::Engine(const Options& options, const optim::Options& optimizer, UnitModel& model,
               const EngineGroups& groups, const Device& device, trace::Recorder& recorder)
    : options_(options),
      device_(device),
      executor_(device_, groups.gather.waits_on_stream, options.overlap_comm),
      plan_(options_, model.units(), model.layers(), groups.gather.shape(), groups.reduce.shape()),
      collectives_(
          new Collectives{{options_, plan_.codecs, plan_.units, groups.gather, recorder, device_},
                          {options_, plan_.codecs, plan_.units, plan_.buckets(), groups.reduce,
                           recorder, device_}}),
      context_{.options = options_,
               .preset = stage_preset(options_.stage),
               .model = model,
               .groups = groups.gather,
               .reduce_groups = groups.reduce,
               .control = groups.control,
               .device = device_,
               .recorder = recorder,
               .plan = plan_,
               .collectives = *collectives_,
               .executor = executor_,
               .progress = progress_},
      memory_(options_, plan_, groups.gather, device_),
      optimizer_(context_, optimizer, memory_),
      codecs_(context_, memory_, optimizer_),
      state_(context_, memory_, optimizer_, codecs_.adaptive()),
      step_(context_, memory_, optimizer_, codecs_) {
  record_units(plan_, model.units(), recorder);
}

Engine::~Engine() { collectives_.reset(); }

void Engine::prepare() {
  if (std::exchange(prepared_, true)) return;
  registered_ = context_.groups.register_memory(memory_.arena, context_.control);
  if (&context_.reduce_groups != &context_.groups) {
    for (auto& one : context_.reduce_groups.register_memory(memory_.arena, context_.control))
      registered_.push_back(std::move(one));
  }
  codecs_.agree();
}

StepResult Engine::step(const BatchSource& batch, UpdateTimes* before) {
  prepare();
  return step_.run(batch, before);
}

double Engine::evaluate(const Batch& batch) {
  prepare();
  return step_.evaluate(batch);
}

Restored Engine::restore(const SavedProgress& saved, const ReadSlice& read, const HasSlice& has) {
  Restored restored;
  if (StepGuard* const guard = step_.guard()) guard->forget_left();
  restored.moments = state_.restore(saved.steps, read, has);
  if (!has) return restored;
  // Saved errors are in units of the loss as it was scaled: they are read under that scale, and
  // follow when this run continues with another scale.
  const LossScale own = loss_scale();
  set_loss_scale(saved.loss_scale);
  restored.errors = state_.restore_errors(read, has);
  if (!own.is_dynamic() || !saved.searches_loss_scale) set_loss_scale(own.state());
  restored.copies = state_.restore_copies(read, has);
  restored.widths = state_.restore_widths(read, has);
  return restored;
}

void Engine::set_weights(const ReadSlice& read) {
  if (StepGuard* const guard = step_.guard()) guard->forget_left();
  state_.set_weights(read);
}

std::string Engine::parameters_hash() const { return zero::parameters_hash(context_, state_); }

std::vector<std::string> Engine::copy_hashes() const {
  return zero::copy_hashes(context_, memory_);
}

std::vector<float> Engine::gather_master(std::size_t unit) const {
  return zero::gather_master(context_, state_, unit);
}

std::vector<MemoryReport> Engine::memory() const {
  return memory_report(context_, memory_, optimizer_, codecs_, step_.guard());
}

}  // namespace zeropp::zero

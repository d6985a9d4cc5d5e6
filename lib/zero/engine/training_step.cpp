#include "lib/zero/engine/training_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/defect.hpp"
#include "lib/base/fault.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

namespace {

using Timed = trace::Timers::Scope;
using Category = trace::Timers::Category;

/// The number that the sum over ranks is divided by.
double averaged_over(const comm::Groups& groups) {
  const auto ranks = static_cast<double>(groups.world->size());
  return defect::planted(defect::Kind::gradient_scaled)
             ? ranks / static_cast<double>(groups.topology.ranks_per_node)
             : ranks;
}

/// Plants the faults that tests ask for into memory that lies still between two steps.
void plant_faults(const EngineContext& context, const RankMemory& memory,
                  const RankOptimizer& optimizer) {
  if (!fault::flips()) return;
  using fault::Values;
  const std::uint64_t step = context.progress.steps.begun;
  for (std::size_t u = 0; u < context.units().size(); ++u) {
    const Buffer& resident = memory.resident_weights[u];
    fault::flip(Values::resident, step, u, resident.data(), resident.bytes());
    const std::vector<View> arrays = optimizer.on_device().arrays(u);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      fault::flip(i == 0 ? Values::master : Values::moments, step, u, arrays[i].data,
                  arrays[i].bytes());
    }
  }
}

/// Plants the defects that tests ask for into gradients, in host memory.
void plant_defects(const std::vector<View>& gradients, bool is_third_step) {
  if (defect::planted(defect::Kind::nan_planted) && is_third_step)
    *gradients.front().as<float>() = std::numeric_limits<float>::quiet_NaN();
  if (!defect::planted(defect::Kind::nan_dropped)) return;
  for (const View& each : gradients) {
    float* const values = each.as<float>();
    std::replace_if(
        values, values + each.count, [](float v) { return !std::isfinite(v); }, 0.0F);
  }
}

}  // namespace

TrainingStep::TrainingStep(const EngineContext& context, RankMemory& memory,
                           RankOptimizer& optimizer, CodecController& codecs)
    : context_(context),
      memory_(memory),
      optimizer_(optimizer),
      codecs_(codecs),
      loss_scale_(context.options.compute == Dtype::fp16 ? context.options.loss_scale
                                                         : LossScaleOptions{.fixed = 1}),
      files_(optimizer.files(), context.recorder),
      norm_(memory.own_gradients(), context.units(), context.device),
      operations_(context, memory, optimizer, codecs, norm_),
      loss_(sizeof(double), context.device.staging()) {
  if (context.options.verify_interval > 0) guard_.emplace(context, memory, optimizer);
  context.recorder.searches_loss_scale = loss_scale_.is_dynamic();
}

StepResult TrainingStep::run(const BatchSource& batch, UpdateTimes* before) {
  StepResult result = begin();
  const StepPlan& plan = context_.plan.step;
  Progress& progress = context_.progress;
  StepRun with{.batch = batch,
               .loss_scale = loss_scale_.value(),
               .t = progress.steps.taken + 1,
               .gradient_scale = gradient_scale()};

  // Gradients of all micro-steps: every layer forward, then every layer backward in reverse. The
  // schedule prefetches weights for the next layers, and reductions follow the layers; where units
  // are updated during backward, so do updates.
  const Schedule& gradients = plan.step.when(progress.secondary == progress.version);
  execute(gradients, with, clock_);
  result.predicted = volume(gradients, plan.volumes);

  // Norm, on `compute` or during backward, which the host waits for here, once a step.
  if (!context_.plan.updates_in_backward()) start_norm();
  context_.executor.join();
  if (guard_) guard_->observe();
  norm_.fetch(context_.compute());
  result.loss = wait_for_loss() / static_cast<double>(context_.options.accumulation_steps);
  if (before != nullptr) *before = read_update_times();
  if (guard_) result.corruption = guard_->judge();
  const Timed scope(context_.recorder.timers, Category::optimizer);
  result.grad_norm = global_norm();
  result.skipped = !std::isfinite(result.grad_norm);
  result.damaged = result.skipped && context_.plan.updates_in_backward();

  // Clip, update and refresh; a step that is skipped ends here.
  update_clock_.begin();
  host_seconds_before_ = optimizer_.host_seconds();
  codecs_.measure(/*finite=*/!result.skipped);
  if (!result.skipped) {
    with.clip = clip_factor(result.grad_norm);
    ++progress.steps.taken;
    optimizer_.begin_step(context_.compute());
    execute(plan.update, with, update_clock_);
    optimizer_.wait_for_files();
    result.predicted += volume(plan.update, plan.volumes);
    context_.collectives.gradients.errors().commit(with.t, context_.compute().handle());
    progress.resident = ++progress.version;
    codecs_.choose_widths();
  }
  end(result);
  return result;
}

StepResult TrainingStep::begin() {
  codecs_.apply();
  gather_initial();
  codecs_.begin_step();
  sent_before_ = sent();
  files_.begin_step();
  clock_.begin();
  ++context_.progress.steps.begun;
  plant_faults(context_, memory_, optimizer_);
  if (guard_) guard_->begin_step();
  StepResult result;
  result.loss_scale = loss_scale_.value();
  result.learning_rate = optimizer_.on_device().learning_rate(context_.progress.steps.taken + 1);
  return result;
}

void TrainingStep::end(StepResult& result) {
  const StepClock::Times times = clock_.times();
  result.time_forward = times.forward;
  result.time_backward = times.backward;
  result.time_exposed = times.exposed;
  result.time_gather = times.gather;
  result.time_reduce = times.reduce;
  result.time_agreement = times.agreement;
  updated_in_backward_ = times.update;
  if (result.skipped) {
    ++context_.recorder.counters["nonfinite_steps"];
    context_.collectives.gradients.errors().discard();
  }
  LossScale next = loss_scale_;
  result.exhausted = !next.update(result.skipped);
  set_loss_scale(next.state());
  result.sent = sent() - sent_before_;
  files_.end_step();
}

void TrainingStep::execute(const Schedule& schedule, const StepRun& with, StepClock& clock) {
  optimizer_.prefetch_weights(schedule);
  context_.executor.execute(
      schedule, [&](const Op& op) { operations_.wait_for_earlier(op, clock); },
      [&](const Op& op) {
        return guard_ ? guard_->run(op, with, operations_) : operations_.run(op, with);
      },
      clock);
}

void TrainingStep::gather_initial() {
  Progress& progress = context_.progress;
  if (progress.resident == progress.version) return;
  execute(context_.plan.step.initial, {}, clock_);
  progress.resident = progress.version;
}

double TrainingStep::evaluate(const Batch& batch) {
  clock_.begin();
  codecs_.apply();
  gather_initial();
  const Progress& progress = context_.progress;
  execute(context_.plan.step.evaluation.when(progress.secondary == progress.version),
          {.batch = [&](std::size_t) { return batch; }}, clock_);
  return wait_for_loss();
}

void TrainingStep::start_norm() {
  const bool is_third_step =
      context_.progress.steps.taken == 2 && !context_.recorder.counters.contains("nonfinite_steps");
  plant_defects(memory_.own_gradients(), is_third_step);
  const Timed scope(context_.recorder.timers, Category::optimizer);
  norm_.start(gradient_scale(), context_.compute());
}

double TrainingStep::wait_for_loss() {
  auto* const loss = reinterpret_cast<double*>(loss_.data());
  const Stream& compute = context_.compute();
  context_.model.take_loss(loss, compute.handle());
  compute.synchronize();
  return *loss;
}

double TrainingStep::global_norm() const {
  std::vector<double> partial = norm_.squares();
  if (context_.preset.shard_optimizer) partial = context_.control.all_gather(partial);
  double total = 0;
  // The first shard group has all shards; the others have the same.
  for (std::size_t shard = 0; shard < context_.world_size(); ++shard) total += partial[shard];
  return std::sqrt(total);
}

double TrainingStep::clip_factor(double norm) const {
  const double largest = context_.options.gradient_clipping;
  return largest > 0 && norm > largest ? largest / norm : 1.0;
}

float TrainingStep::gradient_scale() const {
  const auto micro_steps = static_cast<double>(context_.options.accumulation_steps);
  const auto mean = static_cast<float>(1.0 / (averaged_over(context_.groups) * micro_steps));
  double scale = loss_scale_.value();
  if (defect::planted(defect::Kind::loss_scale_late)) {
    LossScale next = loss_scale_;
    if (next.update(/*overflow=*/false)) scale = next.value();
  }
  return static_cast<float>(static_cast<double>(mean) / scale);
}

void TrainingStep::set_loss_scale(const LossScale::State& state) {
  const double factor = state.scale / loss_scale_.value();
  loss_scale_.restore(state);
  if (factor == 1.0) return;
  context_.collectives.gradients.errors().rescale(static_cast<float>(factor),
                                                  context_.compute().handle());
}

UpdateTimes TrainingStep::read_update_times() const {
  const StepClock::Times times = update_clock_.times();
  return {.optimizer = times.update + updated_in_backward_,
          .offload = optimizer_.host_seconds() - host_seconds_before_,
          .gather = times.gather,
          .agreement = times.agreement};
}

UpdateTimes TrainingStep::update_times() const {
  context_.executor.join();
  context_.compute().synchronize();
  return read_update_times();
}

comm::Bytes TrainingStep::sent() const {
  comm::Bytes total;
  for (const trace::CollectiveRow& row : context_.recorder.collectives) {
    total += {row.wire_bytes_intra, row.wire_bytes_inter};
  }
  return total;
}

}  // namespace zeropp::zero

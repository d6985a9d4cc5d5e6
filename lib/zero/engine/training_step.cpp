#include "lib/zero/engine/training_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/defect.hpp"
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
      operations_(context, memory, optimizer, codecs),
      loss_scale_(context.options.compute == Dtype::fp16 ? context.options.loss_scale
                                                         : LossScaleOptions{.fixed = 1}),
      files_(optimizer.files(), context.recorder),
      norm_(memory.own_gradients(), context.units(), context.device),
      loss_(sizeof(double), context.device.staging()) {
  context.recorder.searches_loss_scale = loss_scale_.is_dynamic();
}

StepResult TrainingStep::run(const BatchSource& batch, UpdateTimes* before) {
  StepResult result = begin();
  const StepPlan& plan = context_.plan.step;
  Progress& progress = context_.progress;
  const bool secondary_valid = progress.secondary_version == progress.version;
  const std::uint64_t t = progress.steps.taken + 1;

  // Gradients of all micro-steps: every layer forward, then every layer backward in reverse. The
  // schedule prefetches weights for the next layers, and reductions follow behind the layers.
  const Schedule& gradients = plan.step.when(secondary_valid);
  execute(
      gradients, clock_,
      {// Streams `gather` and, to decode, `gather_end`: whole weights for a layer (stage 3), over
       // all ranks, or inside the hpZ group once it has secondary shards of these weights.
       .gather = [&](const Op& op) { return operations_.gather(op); },
       .gather_secondary = [&](const Op& op) { return operations_.gather_secondary(op); },
       // Stream `secondary`: hpZ's shards are brought up to date along the rails, by differences,
       // or cut from the first gather after an update.
       .exchange = [&](const Op& op) { return operations_.exchange(op); },
       .keep_secondary = [&](const Op& op) { operations_.keep_secondary(op); },
       // Stream `compute`: the model.
       .forward = [&](const Op& op) { operations_.forward(op, batch, loss_scale_.value()); },
       .clear_gradients = [&](const Op& op) { operations_.clear_gradients(op); },
       .backward = [&](const Op& op) { operations_.backward(op); },
       // Streams `reduce` and, to decode and add, `reduce_end`: a bucket's sum over ranks goes into
       // the gradient shards; at stage 0 it is gathered; over several shard groups it is summed.
       .reduce = [&](const Op& op) { return reduce(op); },
       .gather_sum = [&](const Op& op) { operations_.gather_sum(op); },
       .reduce_over_replicas = [&](const Op& op) { operations_.reduce_over_replicas(op); },
       .gather_over_replicas = [&](const Op& op) { operations_.gather_over_replicas(op); },
       // Stream `update`, where units are updated during backward.
       .update =
           [&](const Op& op) {
             const Timed scope(context_.recorder.timers, Category::optimizer);
             optimizer_.update(op, t, gradient_scale(), 1.0);
           }});
  result.predicted = volume(gradients, plan.volumes);

  // Norm, on `compute` or during backward, which the host waits for here, once a step.
  if (!updates_in_backward()) start_norm();
  context_.executor.join();
  norm_.fetch(context_.compute());
  result.loss = wait_for_loss() / static_cast<double>(context_.options.accumulation_steps);
  if (before != nullptr) *before = read_update_times();
  const Timed scope(context_.recorder.timers, Category::optimizer);
  result.grad_norm = global_norm();
  result.skipped = !std::isfinite(result.grad_norm);
  result.damaged = result.skipped && updates_in_backward();

  // Clip, update and refresh; a step that is skipped ends here.
  update_clock_.begin();
  host_seconds_before_ = optimizer_.host_seconds();
  if (!result.skipped) {
    codecs_.measure_gradients();
    const double clip = clip_factor(result.grad_norm);
    ++progress.steps.taken;
    optimizer_.begin_step(context_.compute());
    execute(plan.update, update_clock_,
            {// Stream `update` at stage 3, beside the next step's first gathers, else `compute`.
             .update = [&](const Op& op) { optimizer_.update(op, t, gradient_scale(), clip); },
             // Streams `gather` and, to decode, `gather_end`: whole updated weights (stages 1 and
             // 2, and units that persist), beside the next step's first layers.
             .refresh = [&](const Op& op) { return operations_.refresh(op); }});
    optimizer_.wait_for_files();
    result.predicted += volume(plan.update, plan.volumes);
    context_.gradient_reduce.errors().commit(t, context_.compute().handle());
    ++progress.version;
    hold_refreshed();
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
  updated_in_backward_ = times.update;
  if (result.skipped) {
    ++context_.recorder.counters["nonfinite_steps"];
    context_.gradient_reduce.errors().discard();
  }
  LossScale next = loss_scale_;
  result.exhausted = !next.update(result.skipped);
  set_loss_scale(next.state());
  result.sent = sent() - sent_before_;
  files_.end_step();
}

void TrainingStep::execute(const Schedule& schedule, StepClock& clock, OpHandlers handlers) {
  handlers.wait_for_earlier = [&](const Op& op) { operations_.wait_for_earlier(op, clock); };
  optimizer_.prefetch_weights(schedule);
  context_.executor.execute(schedule, handlers, clock);
}

void TrainingStep::gather_initial() {
  if (std::exchange(context_.progress.gathered_initial, true)) return;
  execute(context_.plan.step.initial, clock_,
          {.refresh = [&](const Op& op) { return operations_.refresh(op); }});
  hold_refreshed();
}

void TrainingStep::hold_refreshed() {
  Progress& progress = context_.progress;
  if (context_.options.refreshes_differences()) progress.secondary_version = progress.version;
}

double TrainingStep::evaluate(const Batch& batch) {
  clock_.begin();
  codecs_.apply();
  gather_initial();
  const Progress& progress = context_.progress;
  const bool secondary_valid = progress.secondary_version == progress.version;
  const BatchSource source = [&](std::size_t) { return batch; };
  execute(context_.plan.step.evaluation.when(secondary_valid), clock_,
          {.gather = [&](const Op& op) { return operations_.gather(op, Phase::evaluation); },
           .gather_secondary =
               [&](const Op& op) { return operations_.gather_secondary(op, Phase::evaluation); },
           .exchange = [&](const Op& op) { return operations_.exchange(op, Phase::evaluation); },
           .keep_secondary = [&](const Op& op) { operations_.keep_secondary(op); },
           .forward = [&](const Op& op) { operations_.forward(op, source, std::nullopt); }});
  return wait_for_loss();
}

bool TrainingStep::updates_in_backward() const { return context_.plan.step.input.slabs.enabled(); }

Finish TrainingStep::reduce(const Op& op) {
  Finish finish = operations_.reduce(op);
  if (!updates_in_backward()) return finish;
  return [this, &op, finish = std::move(finish)](StreamHandle end) {
    finish(end);
    const Timed scope(context_.recorder.timers, Category::optimizer);
    for (const Segment& segment : context_.plan.step.input.buckets[op.index].segments) {
      const bool whole = ends_shard(segment, context_.units()[segment.unit]);
      if (whole) norm_.start(segment.unit, gradient_scale(), end);
    }
  };
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
  context_.gradient_reduce.errors().rescale(static_cast<float>(factor),
                                            context_.compute().handle());
}

UpdateTimes TrainingStep::read_update_times() const {
  const StepClock::Times times = update_clock_.times();
  return {.optimizer = times.update + updated_in_backward_,
          .offload = optimizer_.host_seconds() - host_seconds_before_,
          .gather = times.gather};
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

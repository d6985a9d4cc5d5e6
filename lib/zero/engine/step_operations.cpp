#include "lib/zero/engine/step_operations.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/defect.hpp"
#include "lib/base/fault.hpp"
#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

void StepOperations::wait_for_earlier(const Op& op, StepClock& clock) const {
  const Stream& waiting = context_.executor.stream(op.stream);
  if (sends(op.kind) == Sends::weights) {
    waiting.wait(optimizer_.updated(op.index));
  } else if (op.kind == OpKind::agree) {
    for (std::size_t unit = 0; unit < context_.units().size(); ++unit)
      waiting.wait(optimizer_.updated(unit));
  } else if (op.kind == OpKind::reduce) {
    // A sum may go straight into the shard that the last update reads.
    for (const Segment& segment : segments_of(op)) waiting.wait(optimizer_.updated(segment.unit));
  } else if (op.kind == OpKind::forward && op.micro_step == 0) {  // the others come after it
    const std::vector<std::size_t>& units = context_.plan.step.input.layers[op.index].units;
    const auto waits_for = [&](std::size_t unit) {
      return is_refreshed(context_.preset, context_.units()[unit]);
    };
    if (std::ranges::none_of(units, waits_for)) return;
    clock.waiting(waiting, [&] {
      for (const std::size_t unit : units) waiting.wait(refreshed_[unit]);
    });
  }
}

Finish StepOperations::run(const Op& op, const StepRun& with) {
  switch (op.kind) {
    // Streams `gather` and, to decode, `gather_end`: whole weights for a layer (stage 3), over all
    // ranks, or inside the hpZ group once it has secondary shards of these weights.
    case OpKind::gather:
      return gather(op);
    case OpKind::gather_secondary:
      return gather_secondary(op);
    // Stream `secondary`: hpZ's shards are brought up to date along the rails, after an agreement
    // where sizes depend on the weights, or cut from the first gather after an update.
    case OpKind::agree:
      agree(op);
      return {};
    case OpKind::exchange:
      return exchange(op);
    case OpKind::keep_secondary:
      keep_secondary(op);
      return {};
    // Stream `compute`: the model.
    case OpKind::forward:
      forward(op, with);
      return {};
    case OpKind::clear_gradients:
      clear_gradients(op);
      return {};
    case OpKind::backward:
      backward(op);
      return {};
    // Streams `reduce` and, to decode and add, `reduce_end`: a bucket's sum over ranks goes into
    // the gradient shards; at stage 0 it is gathered; over several shard groups it is summed.
    case OpKind::reduce:
      return reduce(op, with);
    case OpKind::end_reduce:  // only its waits matter
      return {};
    case OpKind::gather_sum:
      gather_sum(op);
      return {};
    case OpKind::reduce_over_replicas:
    case OpKind::gather_over_replicas:
      over_replicas(op);
      return {};
    // Stream `update` at stage 3, beside the next step's first gathers, and during backward; else
    // `compute`.
    case OpKind::update:
      update(op, with);
      return {};
    // Streams `gather` and, to decode, `gather_end`: whole updated weights (stages 1 and 2, and
    // units that persist), beside the next step's first layers.
    case OpKind::refresh:
      return refresh(op);
  }
  return {};
}

Finish StepOperations::gather(const Op& op) {
  collective::AllGather& gather = context_.collectives.weights.whole(op.index);
  const View full = memory_.gathered(op);
  const std::uint64_t version = context_.progress.version;
  WeightImages* const images = optimizer_.images();
  if (images != nullptr && images->has(op.index)) {
    gather.start_from_image(
        images->image(op.index, optimizer_.weight_shard(op.index), version, stream_of(op)), full,
        run_in(memory_.workspace(op), op));
  } else {
    gather.start(optimizer_.shard_to_gather(op), full,
                 run_in(optimizer_.workspace_behind_shard(op), op, draws_of_weights(op, version)));
  }
  memory_.weights[op.index] = full;
  return [this, &gather, full, unit = op.index](StreamHandle end) {
    gather.finish(end);
    read_as_fp16(full, end);
    fault::flip(fault::Values::gathered, context_.progress.steps.begun, unit, full.data,
                full.bytes());
  };
}

Finish StepOperations::gather_secondary(const Op& op) {
  const auto& pieces = context_.collectives.weights.secondary(op.index);
  context_.recorder.counters["secondary_gathers"] += pieces.size();
  const View full = memory_.gathered(op);
  const std::size_t count = full.count / pieces.size();
  std::span<std::byte> workspace = memory_.workspace(op);
  std::byte* const staging = workspace.data();  // of one piece after the other
  workspace = workspace.subspan(staged_part_bytes(context_.options, context_.units()[op.index]));
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const View piece = full.part(k * count, count);
    const ConstView part = memory_.secondary->part_to_gather(
        op.index, k, piece, staging, context_.progress.version, stream_of(op));
    pieces[k]->start(part, piece, run_in(workspace, op));
    workspace = workspace.subspan(pieces[k]->workspace_bytes());
  }
  memory_.weights[op.index] = full;
  return [&pieces](StreamHandle end) {
    for (const auto& piece : pieces) piece->finish(end);
  };
}

void StepOperations::agree(const Op& op) {
  if (!sends_differences(op)) return;
  const std::vector<UnitPartition>& units = context_.units();
  const Stream& stream = context_.executor.stream(op.stream);
  const std::size_t both = op.bytes - escapes_.bytes();
  auto* const counted = reinterpret_cast<codec::Escapes*>(memory_.workspace(op).data() + both);
  std::vector<std::size_t> copied;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (memory_.copy(u).count > 0) copied.push_back(u);
  }
  // Two units at a time: a kernel is short, and one fills the GPU while the other ends. The second
  // stream has nothing to do before weights are gathered.
  std::array<Op, 2> turns{op, op};
  turns[1].workspace += both / 2;
  turns[1].stream = StreamId::gather_end;
  const Stream& beside = context_.executor.stream(turns[1].stream);
  Event event;
  stream.record(event);
  beside.wait(event);
  for (std::size_t i = 0; i < copied.size(); ++i) {
    Op& of_unit = turns.at(i % 2);
    const std::size_t u = of_unit.index = copied[i];
    context_.collectives.weights.count_differences(
        u, optimizer_.shard_to_gather(of_unit), memory_.copy(u),
        optimizer_.workspace_behind_shard(of_unit), counted + u, stream_of(of_unit));
  }
  beside.record(event);
  stream.wait(event);
  stream.copy(escapes_.data(), reinterpret_cast<const std::byte*>(counted), escapes_.bytes());
  stream.synchronize();
  const std::span<const codec::Escapes> escapes(
      reinterpret_cast<const codec::Escapes*>(escapes_.data()), units.size());
  std::vector<double> most;  // doubles have these counts exactly
  for (const std::size_t u : copied) most.insert(most.end(), escapes[u].begin(), escapes[u].end());
  context_.control.all_reduce_max(most);
  const std::uint64_t steps_before =
      context_.progress.steps.begun - (op.phase == Phase::evaluation ? 0 : 1);
  auto counts = most.begin();
  for (const std::size_t u : copied) {
    codec::Escapes of_all;
    for (std::uint64_t& each : of_all) each = static_cast<std::uint64_t>(*counts++);
    codec::ExactShape shape = codec::exact_shape(units[u].shard, of_all);
    if (defect::planted(defect::Kind::escape_lost) && shape.escapes > 0) --shape.escapes;
    context_.collectives.weights.set_shape(u, shape);
    context_.plan.agree(u, shape);
    context_.recorder.exact.push_back(
        {.step = steps_before, .unit = u, .width = shape.width, .escapes = shape.escapes});
  }
}

Finish StepOperations::exchange(const Op& op) {
  const std::uint64_t version = context_.progress.version;
  const ConstView shard = optimizer_.shard_to_gather(op);
  context_.collectives.weights.start_copy(
      op.index, shard, memory_.secondary->to_update(op.index, version),
      run_in(optimizer_.workspace_behind_shard(op), op, draws_of_weights(op, version)));
  context_.progress.secondary = version;
  return [this, unit = op.index](StreamHandle end) {
    context_.collectives.weights.finish_copy(unit, end);
  };
}

/// Plants the defect of its name into gathered weights.
void StepOperations::read_as_fp16(View weights, StreamHandle on) const {
  if (context_.options.compute != Dtype::bf16 || !defect::planted(defect::Kind::bf16_as_fp16))
    return;
  context_.device.memory_ops->convert({weights.data, weights.count, Dtype::fp16, weights.kind},
                                      weights, on);
}

void StepOperations::keep_secondary(const Op& op) {
  memory_.secondary->keep(op.index, memory_.weights[op.index], context_.progress.version,
                          stream_of(op));
  context_.progress.secondary = context_.progress.version;
}

void StepOperations::forward(const Op& op, const StepRun& with) {
  if (op.index == 0) {
    const bool trains = op.phase != Phase::evaluation;
    Batch batch = with.batch(op.micro_step);
    if (trains) batch.loss_scale = static_cast<float>(with.loss_scale);
    context_.model.begin(batch, trains, stream_of(op));
  }
  context_.model.forward(op.index, weights_of(op.index), stream_of(op));
}

void StepOperations::clear_gradients(const Op& op) {
  View& gradients = memory_.gradients[op.index];
  gradients = memory_.whole_gradients(op);
  for (const Extent& gap : context_.units()[op.index].gaps) {
    context_.device.memory_ops->clear(gradients.part(gap.begin, gap.count), stream_of(op));
  }
  memory_.is_fresh[op.index] = true;
}

void StepOperations::backward(const Op& op) {
  std::vector<Gradient> gradients;
  for (const std::size_t unit : context_.plan.step.input.layers[op.index].units) {
    gradients.push_back({memory_.gradients[unit], memory_.is_fresh[unit]});
    memory_.is_fresh[unit] = false;
  }
  context_.model.backward(op.index, weights_of(op.index), gradients, stream_of(op));
}

std::vector<ConstView> StepOperations::weights_of(std::size_t layer) const {
  std::vector<ConstView> weights;
  for (const std::size_t unit : context_.plan.step.input.layers[layer].units)
    weights.push_back(memory_.weights[unit]);
  return weights;
}

Finish StepOperations::reduce(const Op& op, const StepRun& with) {
  codecs_.before_reduction(op);
  const auto& replicas = context_.groups.replicas;
  const std::uint64_t draws = draws_of_gradients(op);
  context_.collectives.gradients.start(
      op.index, memory_.gradients, memory_.sum(op),
      run_in(memory_.workspace(op), op,
             replicas ? draws_of(draws, Group::shards, replicas->rank()) : draws));
  return [this, &op, scale = with.gradient_scale](StreamHandle end) {
    context_.collectives.gradients.finish(op.index, end);
    plant_faults(op);
    accumulate(op, end);
    if (!context_.plan.updates_in_backward()) return;
    const trace::Timers::Scope scope(context_.recorder.timers, trace::Timers::Category::optimizer);
    for (const Segment& segment : segments_of(op)) {
      const bool whole = ends_shard(segment, context_.units()[segment.unit]);
      if (whole) norm_.start(segment.unit, scale, end);
    }
  };
}

/// Plants the faults that tests ask for into a bucket's sum.
void StepOperations::plant_faults(const Op& op) const {
  if (!fault::flips()) return;
  std::size_t at = 0;
  for (const Segment& segment : segments_of(op)) {
    const View part = memory_.sum(op).part(at, segment.count);
    fault::flip(fault::Values::sum, context_.progress.steps.begun, segment.unit, part.data,
                part.bytes());
    at += segment.count;
  }
}

void StepOperations::accumulate(const Op& op, StreamHandle on) const {
  // Stage 0 gathers the sum instead. Without a result in the arena the reduction wrote the shard.
  if (!context_.preset.shard_optimizer || op.result == kNoMemory) return;
  const ConstView sum = memory_.sum(op);
  const trace::Timers::Scope scope(context_.recorder.timers, trace::Timers::Category::optimizer);
  std::size_t at = 0;
  for (const Segment& segment : segments_of(op)) {
    const ConstView from = sum.part(at, segment.count);
    const View to = memory_.gradient_shard(segment);
    if (op.first_sum) {
      context_.device.memory_ops->copy(from, to, on);
    } else {
      context_.device.optim->add(segment.count, from.as<float>(), to.as<float>(), on);
    }
    at += segment.count;
  }
}

void StepOperations::gather_sum(const Op& op) {
  context_.collectives.gradients.gather_sum(op.index, memory_.sum(op), memory_.gradients,
                                            run_in(memory_.workspace(op), op));
}

void StepOperations::over_replicas(const Op& op) {
  ReplicaReduce& sum = *context_.collectives.gradients.over_replicas();
  const std::uint64_t draws =
      draws_of(draws_of_gradients(op), Group::replicas, context_.groups.shards->world->rank());
  const collective::Run run = run_in(memory_.workspace(op), op, draws);
  if (op.kind == OpKind::reduce_over_replicas) {
    sum.reduce(op.index, memory_.own_gradients(), memory_.replica_image(op), run);
  } else {
    sum.gather(op.index, memory_.own_gradients(), memory_.replica_image(op), run);
  }
}

void StepOperations::update(const Op& op, const StepRun& with) {
  const trace::Timers::Scope scope(context_.recorder.timers, trace::Timers::Category::optimizer);
  optimizer_.update(op, with.t, with.gradient_scale, with.clip);
  if (!fault::flips()) return;
  const View master = optimizer_.on_device().master(op.index);
  fault::flip(fault::Values::updated, context_.progress.steps.begun, op.index, master.data,
              master.bytes());
}

Finish StepOperations::refresh(const Op& op) {
  // An update gathers what it makes: the next version.
  const bool initial = op.phase == Phase::initial;
  const std::uint64_t version = context_.progress.version + (initial ? 0 : 1);
  const View resident = memory_.resident(op.index);
  const ConstView shard = optimizer_.shard_to_gather(op);
  const collective::Run run =
      run_in(optimizer_.workspace_behind_shard(op), op, draws_of_weights(op, version));
  WeightCollectives& weights = context_.collectives.weights;
  collective::AllGather& whole = weights.whole(op.index);
  const bool differences = context_.options.refreshes_differences() && sends_differences(op);
  if (differences) {
    weights.start_differences(op.index, shard, resident, run);
  } else if (!initial && optimizer_.writes_refresh(op.index)) {
    whole.start_from_workspace(resident, run);
    ++context_.recorder.counters["refreshes_by_updates"];
  } else {
    whole.start(shard, resident, run);
  }
  return [this, &op, &weights, &whole, differences, resident](StreamHandle end) {
    if (differences) {
      weights.finish_differences(op.index, end);
    } else {
      whole.finish(end);
    }
    read_as_fp16(resident, end);
    context_.executor.stream(ends_on(op.stream)).record(refreshed_[op.index]);
  };
}

bool StepOperations::sends_differences(const Op& op) const {
  if (op.phase != Phase::initial) return !context_.plan.choice.whole_weights;
  // Before the first step there are resident weights only where a checkpoint had them: of stage 3,
  // which had still to send what it updated last.
  const Progress& progress = context_.progress;
  return progress.resident > 0 && !context_.plan.codecs.refreshes_at(progress.steps.begun - 1);
}

std::uint64_t StepOperations::draws_of_weights(const Op& op, std::uint64_t version) const {
  return weight_draws(context_.options.seed, version, op.index);
}

std::uint64_t StepOperations::draws_of_gradients(const Op& op) const {
  return gradient_draws(context_.options.seed, context_.progress.steps.begun, op.micro_step,
                        op.index);
}

}  // namespace zeropp::zero

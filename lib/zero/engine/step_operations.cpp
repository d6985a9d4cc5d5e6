#include "lib/zero/engine/step_operations.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/defect.hpp"
#include "lib/zero/plan/collective_plans.hpp"
#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

void StepOperations::wait_for_earlier(const Op& op, StepClock& clock) const {
  const Stream& waiting = context_.executor.stream(op.stream);
  const bool reads_weights = op.kind == OpKind::gather || op.kind == OpKind::gather_secondary ||
                             op.kind == OpKind::exchange || op.kind == OpKind::refresh;
  if (reads_weights) {
    waiting.wait(optimizer_.updated(op.index));
  } else if (op.kind == OpKind::reduce) {
    // A sum may go straight into the shard that the last update reads.
    for (const Segment& segment : context_.plan.step.input.buckets[op.index].segments) {
      waiting.wait(optimizer_.updated(segment.unit));
    }
  } else if (op.kind == OpKind::forward && op.micro_step == 0) {  // the others come behind it
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

Finish StepOperations::gather(const Op& op, Phase phase) {
  collective::AllGather& gather = context_.weight_gather.global(op.index, phase);
  const View full = memory_.gathered(op);
  const std::uint64_t version = context_.progress.version;
  WeightImages* const images = optimizer_.images();
  if (images != nullptr && images->has(op.index)) {
    gather.start_from_image(
        images->image(op.index, optimizer_.weight_shard(op.index), version, stream_of(op)), full,
        memory_.workspace(op), stream_of(op));
  } else {
    gather.start(optimizer_.shard_to_gather(op), full, optimizer_.workspace_behind_shard(op),
                 stream_of(op), weight_draws(context_.options.seed, version, op.index));
  }
  memory_.weights[op.index] = full;
  return [this, &gather, full](StreamHandle end) {
    gather.finish(end);
    read_as_fp16(full, end);
  };
}

Finish StepOperations::gather_secondary(const Op& op, Phase phase) {
  const auto& pieces = context_.weight_gather.secondary(op.index, phase);
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
    pieces[k]->start(part, piece, workspace, stream_of(op));
    workspace = workspace.subspan(pieces[k]->workspace_bytes());
  }
  memory_.weights[op.index] = full;
  return [&pieces](StreamHandle end) {
    for (const auto& piece : pieces) piece->finish(end);
  };
}

Finish StepOperations::exchange(const Op& op, Phase phase) {
  const std::uint64_t version = context_.progress.version;
  context_.weight_exchange.start(op.index, phase, optimizer_.shard_to_gather(op),
                                 memory_.secondary->to_update(op.index, version),
                                 optimizer_.workspace_behind_shard(op), stream_of(op),
                                 weight_draws(context_.options.seed, version, op.index));
  context_.progress.secondary_version = version;
  return [this, unit = op.index, phase](StreamHandle end) {
    context_.weight_exchange.finish(unit, phase, end);
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
  context_.progress.secondary_version = context_.progress.version;
}

void StepOperations::forward(const Op& op, const BatchSource& source,
                             std::optional<double> loss_scale) {
  if (op.index == 0) {
    Batch batch = source(op.micro_step);
    if (loss_scale) batch.loss_scale = static_cast<float>(*loss_scale);
    context_.model.begin(batch, loss_scale.has_value(), stream_of(op));
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

Finish StepOperations::reduce(const Op& op) {
  codecs_.before_reduction(op);
  context_.gradient_reduce.start(op.index, memory_.gradients, memory_.sum(op),
                                 memory_.workspace(op), stream_of(op), reduction_draws(op));
  return [this, &op](StreamHandle end) {
    context_.gradient_reduce.finish(op.index, end);
    accumulate(op, end);
  };
}

void StepOperations::accumulate(const Op& op, StreamHandle on) const {
  // Stage 0 gathers the sum instead. Without a result in the arena the reduction wrote the shard.
  if (!context_.preset.shard_optimizer || op.result == kNoMemory) return;
  const ConstView sum = memory_.sum(op);
  const trace::Timers::Scope scope(context_.recorder.timers, trace::Timers::Category::optimizer);
  std::size_t at = 0;
  for (const Segment& segment : context_.plan.step.input.buckets[op.index].segments) {
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
  context_.gradient_reduce.gather_sum(op.index, memory_.sum(op), memory_.gradients,
                                      memory_.workspace(op), stream_of(op));
}

void StepOperations::reduce_over_replicas(const Op& op) {
  context_.gradient_reduce.over_replicas()->reduce(op.index, memory_.own_gradients(),
                                                   memory_.image(op), memory_.workspace(op),
                                                   stream_of(op), replica_draws(op));
}

void StepOperations::gather_over_replicas(const Op& op) {
  context_.gradient_reduce.over_replicas()->gather(op.index, memory_.own_gradients(),
                                                   memory_.image(op), memory_.workspace(op),
                                                   stream_of(op), replica_draws(op));
}

Finish StepOperations::refresh(const Op& op) {
  // An update gathers what it makes: the next version.
  const std::uint64_t version = context_.progress.version + (op.initial ? 0 : 1);
  const std::uint64_t draws = weight_draws(context_.options.seed, version, op.index);
  const Phase phase = training_phase(op);
  const View resident = memory_.resident(op.index);
  const ConstView shard = optimizer_.shard_to_gather(op);
  const std::span<std::byte> workspace = optimizer_.workspace_behind_shard(op);
  collective::AllGather* gather = nullptr;
  if (refreshes_by_differences(op)) {
    gather = &context_.weight_exchange.start_refresh(op.index, phase, shard, resident, workspace,
                                                     stream_of(op), draws);
  } else {
    gather = &context_.weight_gather.global(op.index, phase);
    if (!op.initial && optimizer_.writes_refresh(op.index)) {
      gather->start_from_workspace(resident, workspace, stream_of(op));
      ++context_.recorder.counters["refreshes_by_updates"];
    } else {
      gather->start(shard, resident, workspace, stream_of(op), draws);
    }
  }
  return [this, &op, gather, resident](StreamHandle end) {
    gather->finish(end);
    read_as_fp16(resident, end);
    context_.executor.stream(ends_on(op.stream)).record(refreshed_[op.index]);
  };
}

bool StepOperations::refreshes_by_differences(const Op& op) const {
  if (!context_.options.refreshes_differences()) return false;
  if (!op.initial) return !context_.plan.choice.whole_weights;
  // Before the first step there are resident weights only where a checkpoint had them: of stage 3,
  // which had still to send what it updated last.
  const Progress& progress = context_.progress;
  return progress.secondary_version > 0 &&
         !context_.plan.codecs.refreshes_at(progress.steps.begun - 1);
}

std::uint64_t StepOperations::reduction_draws(const Op& op) const {
  const std::uint64_t key =
      gradient_draws(context_.options.seed, context_.progress.steps.begun, op.micro_step, op.index);
  const auto& replicas = context_.groups.replicas;
  return replicas ? draws_of(key, Group::shards, replicas->rank()) : key;
}

std::uint64_t StepOperations::replica_draws(const Op& op) const {
  return draws_of(
      gradient_draws(context_.options.seed, context_.progress.steps.begun, op.micro_step, op.index),
      Group::replicas, context_.groups.shards->world->rank());
}

}  // namespace zeropp::zero

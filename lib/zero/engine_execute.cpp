// The executor: runs the operations of a schedule.
#include <algorithm>
#include <utility>

#include "lib/device/range.hpp"
#include "lib/zero/engine.hpp"

namespace zeropp::zero {

namespace {

using Category = trace::Timers::Category;

/// What profilers show.
const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::gather:
      return "gather";
    case OpKind::gather_secondary:
      return "gather_secondary";
    case OpKind::keep_secondary:
      return "keep_secondary";
    case OpKind::forward:
      return "forward";
    case OpKind::backward:
      return "backward";
    case OpKind::clear_gradients:
      return "clear_gradients";
    case OpKind::reduce:
      return "reduce";
    case OpKind::accumulate:
      return "accumulate";
    case OpKind::gather_sum:
      return "gather_sum";
    case OpKind::update:
      return "update";
    case OpKind::refresh:
      return "refresh";
  }
  return "?";
}

}  // namespace

void Engine::execute(const Schedule& schedule, Mode mode) {
  mode_ = mode;
  events_ = std::vector<Event>(schedule.ops.size());
  pending_.assign(schedule.ops.size(), {});
  const Stream& compute = stream(StreamId::compute);
  Event begin;
  compute.record(begin);
  stream(StreamId::gather).wait(begin);
  stream(StreamId::reduce).wait(begin);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    const Range range(name_of(op.kind));
    clock_.phase(compute, op.backward_phase);
    wait_for(schedule, op.waits_on, op.stream);
    run(op, i);
    // Where the host would wait, a collective is finished when its result is needed; where only the
    // stream waits, at once: decoding does not queue behind what later gathers wait for.
    if (pending_[i] && groups_.waits_on_stream) std::exchange(pending_[i], {})();
    if (!pending_[i]) stream(op.stream).record(events_[i]);
    if (!options_.overlap_comm) wait_for(schedule, {i}, StreamId::compute);
    all.push_back(i);
  }
  wait_for(schedule, all, StreamId::compute);
  clock_.end(compute);
}

/// What compute waits for others is exposed; other streams wait in each other's shadow.
void Engine::wait_for(const Schedule& schedule, const std::vector<std::size_t>& ops,
                      StreamId waiting) {
  const auto complete_all = [&] {
    for (const std::size_t op : ops) complete(schedule, op, waiting);
  };
  const bool others = std::any_of(ops.begin(), ops.end(), [&](std::size_t op) {
    return schedule.ops[op].stream != StreamId::compute;
  });
  if (waiting == StreamId::compute && others) {
    clock_.waiting(stream(waiting), complete_all);
  } else {
    complete_all();
  }
}

/// A collective enqueues its later hops and the decoding when it is finished: its event comes after
/// them.
void Engine::complete(const Schedule& schedule, std::size_t op, StreamId waiting) {
  if (pending_[op]) {
    std::exchange(pending_[op], {})();
    stream(schedule.ops[op].stream).record(events_[op]);
  }
  stream(waiting).wait(events_[op]);
}

void Engine::run(const Op& op, std::size_t position) {
  const View sum =
      op.kind == OpKind::reduce || op.kind == OpKind::accumulate || op.kind == OpKind::gather_sum
          ? arena_.view(plan_.input.buckets[op.index].count(), Dtype::fp32, op.result)
          : View{};
  switch (op.kind) {
    case OpKind::gather:
      start_gather(op, position, weights_.global(op.index, phase_of(op)), compute_shard(op.index));
      break;
    case OpKind::gather_secondary:
      start_gather(op, position, weights_.secondary(op.index, phase_of(op)),
                   secondary_->read(op.index, version_));
      ++recorder_.counters["secondary_gathers"];
      break;
    case OpKind::keep_secondary:
      secondary_->keep(op.index, weight_views_[op.index], version_, stream(op.stream).handle());
      secondary_version_ = version_;
      break;
    case OpKind::forward:
      forward(op);
      break;
    case OpKind::backward:
      backward(op);
      break;
    case OpKind::clear_gradients: {
      View& gradients = gradient_views_[op.index];
      if (preset_.shard_gradients)
        gradients = arena_.view(units_[op.index].padded, Dtype::fp32, op.result);
      for (const Extent& gap : units_[op.index].gaps) {
        device_.memory_ops->clear(gradients.part(gap.begin, gap.count), stream(op.stream).handle());
      }
      gradient_is_fresh_[op.index] = true;
      break;
    }
    case OpKind::reduce:
      gradients_.start(op.index, gradient_views_, sum, workspace(op), stream(op.stream).handle());
      pending_[position] = [this, bucket = op.index] { gradients_.finish(bucket); };
      break;
    case OpKind::accumulate:
      accumulate(op, sum);
      break;
    case OpKind::gather_sum:
      gradients_.gather_sum(op.index, sum, gradient_views_, workspace(op),
                            stream(op.stream).handle());
      break;
    case OpKind::update:
      update(op.index);
      break;
    case OpKind::refresh:
      refresh(op);
      break;
  }
}

Phase Engine::phase_of(const Op& op) const {
  if (mode_ == Mode::evaluation) return Phase::evaluation;
  if (mode_ == Mode::initial) return Phase::initial;
  if (op.kind == OpKind::refresh) return Phase::update;
  return op.backward_phase ? Phase::backward : Phase::forward;
}

void Engine::start_gather(const Op& op, std::size_t position, collective::AllGather& gather,
                          ConstView shard) {
  const View full = arena_.view(units_[op.index].padded, options_.compute, op.result);
  gather.start(shard, full, workspace(op), stream(op.stream).handle());
  weight_views_[op.index] = full;
  pending_[position] = [&gather] { gather.finish(); };
}

void Engine::refresh(const Op& op) {
  auto& gather = weights_.global(op.index, phase_of(op));
  gather.start(compute_shard(op.index),
               resident_weights_[op.index].view(units_[op.index].padded, options_.compute),
               workspace(op), stream(op.stream).handle());
  gather.finish();
}

void Engine::accumulate(const Op& op, ConstView sum) {
  if (!preset_.shard_optimizer) return;  // stage 0: the sum is gathered instead
  const trace::Timers::Scope scope(recorder_.timers, Category::optimizer);
  std::size_t at = 0;
  for (const Segment& segment : plan_.input.buckets[op.index].segments) {
    const View shard = gradient_shards_[segment.unit].view(units_[segment.unit].shard, Dtype::fp32);
    device_.optim->add(segment.count, sum.part(at, segment.count).as<float>(),
                       shard.part(segment.offset, segment.count).as<float>(),
                       stream(op.stream).handle());
    at += segment.count;
  }
}

void Engine::forward(const Op& op) {
  const StreamHandle compute = stream(op.stream).handle();
  if (op.index == 0) model_.begin((*batch_)(op.micro_step), mode_ != Mode::evaluation, compute);
  std::vector<ConstView> weights;
  for (const std::size_t unit : plan_.input.layers[op.index].units)
    weights.push_back(weight_views_[unit]);
  model_.forward(op.index, weights, compute);
}

void Engine::backward(const Op& op) {
  std::vector<ConstView> weights;
  std::vector<Gradient> gradients;
  for (const std::size_t unit : plan_.input.layers[op.index].units) {
    weights.push_back(weight_views_[unit]);
    gradients.push_back({gradient_views_[unit], gradient_is_fresh_[unit]});
    gradient_is_fresh_[unit] = false;
  }
  model_.backward(op.index, weights, gradients, stream(op.stream).handle());
}

std::span<std::byte> Engine::workspace(const Op& op) const {
  const std::span<std::byte> all = arena_.span();
  return op.workspace == kNoMemory ? std::span<std::byte>{} : all.subspan(op.workspace);
}

}  // namespace zeropp::zero

// The executor: runs the operations of a schedule.
#include <algorithm>
#include <utility>

#include "lib/device/range.hpp"
#include "lib/zero/draw_keys.hpp"
#include "lib/zero/engine.hpp"

namespace zeropp::zero {

namespace {

using Category = trace::Timers::Category;
using Work = StepClock::Work;

/// What times are kept of; count: none, it is compute's own.
Work work_of(OpKind kind) {
  switch (kind) {
    case OpKind::gather:
    case OpKind::gather_secondary:
    case OpKind::refresh:
      return Work::gather;
    case OpKind::reduce:
    case OpKind::gather_sum:
    case OpKind::reduce_across:
    case OpKind::gather_across:
      return Work::reduce;
    case OpKind::update:
      return Work::update;
    default:
      return Work::count;
  }
}

/// `enqueue`, measured.
template <class Enqueue>
void timed(StepClock& clock, OpKind kind, const Stream& stream, const Enqueue& enqueue) {
  if (const Work work = work_of(kind); work != Work::count) {
    clock.working(work, stream, enqueue);
  } else {
    enqueue();
  }
}

}  // namespace

void Engine::execute(const Schedule& schedule, Mode mode, StepClock& clock) {
  mode_ = mode;
  clock_ = &clock;
  events_ = std::vector<Event>(schedule.ops.size());
  pending_.assign(schedule.ops.size(), {});
  const Stream& compute = stream(StreamId::compute);
  clock.origin(compute);
  Event begin;
  compute.record(begin);
  for (const Stream& other : streams_) other.wait(begin);
  expect_weights(schedule);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    const Range range(name_of(op.kind));
    clock.phase(compute, op.backward_phase);
    wait_for(schedule, op.waits_on, op.stream);
    await_updates(op);
    timed(clock, op.kind, stream(op.stream), [&] { run(op, i); });
    if (!pending_[i]) {
      stream(op.stream).record(events_[i]);
    } else {
      Event started;
      stream(op.stream).record(started);
      stream(ends_on(op.stream)).wait(started);
      // Where the host would wait, a collective is finished when its result is needed; where only
      // the stream waits, at once: decoding does not queue behind what later gathers wait for.
      if (groups_.waits_on_stream) finish(schedule, i);
    }
    if (!options_.overlap_comm) wait_for(schedule, {i}, StreamId::compute);
  }
  clock.waiting(compute, [&] {
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) finish(schedule, i);
    join({StreamId::gather, StreamId::gather_end, StreamId::reduce, StreamId::reduce_end,
          StreamId::secondary});
  });
  clock.end(compute);
}

void Engine::join(std::initializer_list<StreamId> ids) const {
  for (const StreamId id : ids) {
    Event done;
    stream(id).record(done);
    stream(StreamId::compute).wait(done);
  }
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
    clock_->waiting(stream(waiting), complete_all);
  } else {
    complete_all();
  }
}

/// A collective enqueues its later hops and the decoding when it is finished: its event comes after
/// them. Nothing to do for what is finished already.
void Engine::finish(const Schedule& schedule, std::size_t op) {
  if (!pending_[op]) return;
  const Stream& end = stream(ends_on(schedule.ops[op].stream));
  timed(*clock_, schedule.ops[op].kind, end,
        [&] { std::exchange(pending_[op], {})(end.handle()); });
  end.record(events_[op]);
}

void Engine::complete(const Schedule& schedule, std::size_t op, StreamId waiting) {
  finish(schedule, op);
  stream(waiting).wait(events_[op]);
}

void Engine::await_updates(const Op& op) {
  const Stream& waiting = stream(op.stream);
  if (op.kind == OpKind::gather || op.kind == OpKind::gather_secondary) {
    waiting.wait(updated_[op.index]);
  } else if (op.kind == OpKind::reduce) {
    // A sum may go straight into the shard that the last update reads.
    for (const Segment& segment : plans_.step.input.buckets[op.index].segments) {
      waiting.wait(updated_[segment.unit]);
    }
  }
}

void Engine::run(const Op& op, std::size_t position) {
  switch (op.kind) {
    case OpKind::gather:
      start_gather(op, position, plans_.weights.global(op.index, phase_of(op)), shard_to_gather(op),
                   behind_upload(op));
      break;
    case OpKind::gather_secondary:
      start_gather(op, position, plans_.weights.secondary(op.index, phase_of(op)),
                   secondary_->read(op.index, version_), workspace(op));
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
        gradients =
            arena_.view(plans_.units[op.index].padded, plans_.units[op.index].gradients, op.result);
      for (const Extent& gap : plans_.units[op.index].gaps) {
        device_.memory_ops->clear(gradients.part(gap.begin, gap.count), stream(op.stream).handle());
      }
      gradient_is_fresh_[op.index] = true;
      break;
    }
    case OpKind::reduce:
      if (measured_) {
        const bool first = op.micro_step == 0 || !preset_.shard_gradients;
        errors_->reduce(op.index, gradient_views_, first, stream(op.stream).handle());
      }
      if (adaptive_ && !adaptive_->of_weights() && adaptive_->due(steps_begun_ - 1)) {
        adaptive_->errors().keep(plans_.step.input.buckets[op.index], gradient_views_,
                                 stream(op.stream).handle());
      }
      plans_.gradients.start(op.index, gradient_views_, sum_of(op), workspace(op),
                             stream(op.stream).handle(), reduction_draws(op));
      pending_[position] = [this, &op](StreamHandle end) {
        plans_.gradients.finish(op.index, end);
        accumulate(op, end);
      };
      break;
    case OpKind::end_reduce:
      break;  // what it waits for is all
    case OpKind::gather_sum:
      plans_.gradients.gather_sum(op.index, sum_of(op), gradient_views_, workspace(op),
                                  stream(op.stream).handle());
      break;
    case OpKind::reduce_across:
      plans_.gradients.across()->reduce(op.index, own_gradients(), image(op), workspace(op),
                                        stream(op.stream).handle(), replica_draws(op));
      break;
    case OpKind::gather_across:
      plans_.gradients.across()->gather(op.index, own_gradients(), image(op), workspace(op),
                                        stream(op.stream).handle(), replica_draws(op));
      break;
    case OpKind::update:
      update(op);
      break;
    case OpKind::refresh:
      refresh(op);
      break;
  }
}

Phase Engine::phase_of(const Op& op) const {
  if (mode_ == Mode::evaluation) return Phase::evaluation;
  if (mode_ == Mode::initial) return Phase::initial;
  return training_phase(op);
}

void Engine::expect_weights(const Schedule& schedule) {
  if (!filed_) return;
  std::vector<std::size_t> units;
  for (const Op& op : schedule.ops) {
    if (op.kind == OpKind::gather && filed_->has(op.index)) units.push_back(op.index);
  }
  filed_->expect(std::move(units));
}

/// Weights that lie on the host or in a file come to the device first, where the workspace begins.
ConstView Engine::shard_to_gather(const Op& op) {
  if (!options_.offload_param.enabled()) return compute_shard(op.index);
  std::byte* const here = workspace(op).data();
  const Stream& on = stream(op.stream);
  if (filed_ && filed_->has(op.index)) {
    if (op.kind == OpKind::refresh) offloaded_->settle();  // an update has just made them
    filed_->bring(op.index, here, on);
  } else {
    const ConstView shard = compute_shard(op.index);
    on.copy(here, static_cast<const std::byte*>(shard.data), shard.bytes());
  }
  return {here, plans_.units[op.index].shard, options_.compute, device_.memory};
}

std::span<std::byte> Engine::behind_upload(const Op& op) const {
  return workspace(op).subspan(upload_bytes(plans_.units[op.index], options_));
}

void Engine::start_gather(const Op& op, std::size_t position, collective::AllGather& gather,
                          ConstView shard, std::span<std::byte> memory) {
  const View full = arena_.view(plans_.units[op.index].padded, options_.compute, op.result);
  gather.start(shard, full, memory, stream(op.stream).handle(),
               weight_draws(options_.seed, version_, op.index));
  weight_views_[op.index] = full;
  pending_[position] = [&gather](StreamHandle end) { gather.finish(end); };
}

void Engine::refresh(const Op& op) {
  // An update gathers what it makes: the next version.
  const std::uint64_t version = mode_ == Mode::initial ? version_ : version_ + 1;
  auto& gather = plans_.weights.global(op.index, phase_of(op));
  gather.start(shard_to_gather(op),
               resident_weights_[op.index].view(plans_.units[op.index].padded, options_.compute),
               behind_upload(op), stream(op.stream).handle(),
               weight_draws(options_.seed, version, op.index));
  gather.finish(stream(op.stream).handle());
}

void Engine::settle_files() {
  if (offloaded_) offloaded_->settle();
}

View Engine::shard_part(const Segment& segment) const {
  return gradient_shards_[segment.unit]
      .view(plans_.units[segment.unit].shard, Dtype::fp32)
      .part(segment.offset, segment.count);
}

View Engine::sum_of(const Op& op) const {
  const Bucket& bucket = plans_.step.input.buckets[op.index];
  return op.result == kNoMemory ? shard_part(bucket.segments.front())
                                : arena_.view(bucket.count(), Dtype::fp32, op.result);
}

void Engine::accumulate(const Op& op, StreamHandle on) {
  if (!preset_.shard_optimizer || op.result == kNoMemory) return;  // stage 0: gathered instead
  const ConstView sum = sum_of(op);
  const trace::Timers::Scope scope(recorder_.timers, Category::optimizer);
  std::size_t at = 0;
  for (const Segment& segment : plans_.step.input.buckets[op.index].segments) {
    const ConstView from = sum.part(at, segment.count);
    const View to = shard_part(segment);
    if (op.first_sum) {
      device_.memory_ops->copy(from, to, on);
    } else {
      device_.optim->add(segment.count, from.as<float>(), to.as<float>(), on);
    }
    at += segment.count;
  }
}

void Engine::forward(const Op& op) {
  const StreamHandle compute = stream(op.stream).handle();
  if (op.index == 0) {
    const bool train = mode_ != Mode::evaluation;
    Batch batch = (*batch_)(op.micro_step);
    if (train) batch.loss_scale = static_cast<float>(loss_scale_.value());
    model_.begin(batch, train, compute);
  }
  std::vector<ConstView> weights;
  for (const std::size_t unit : plans_.step.input.layers[op.index].units)
    weights.push_back(weight_views_[unit]);
  model_.forward(op.index, weights, compute);
}

void Engine::backward(const Op& op) {
  std::vector<ConstView> weights;
  std::vector<Gradient> gradients;
  for (const std::size_t unit : plans_.step.input.layers[op.index].units) {
    weights.push_back(weight_views_[unit]);
    gradients.push_back({gradient_views_[unit], gradient_is_fresh_[unit]});
    gradient_is_fresh_[unit] = false;
  }
  model_.backward(op.index, weights, gradients, stream(op.stream).handle());
}

std::uint64_t Engine::reduction_draws(const Op& op) const {
  const std::uint64_t key = gradient_draws(options_.seed, steps_begun_, op.micro_step, op.index);
  return groups_.replicas ? draws_of(key, Group::shards, groups_.replicas->rank()) : key;
}

std::uint64_t Engine::replica_draws(const Op& op) const {
  return draws_of(gradient_draws(options_.seed, steps_begun_, op.micro_step, op.index),
                  Group::replicas, groups_.shards->world->rank());
}

std::span<std::byte> Engine::image(const Op& op) const { return arena_.span().subspan(op.result); }

std::span<std::byte> Engine::workspace(const Op& op) const {
  const std::span<std::byte> all = arena_.span();
  return op.workspace == kNoMemory ? std::span<std::byte>{} : all.subspan(op.workspace);
}

}  // namespace zeropp::zero

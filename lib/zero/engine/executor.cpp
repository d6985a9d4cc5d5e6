#include "lib/zero/engine/executor.hpp"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/range.hpp"

namespace zeropp::zero {

namespace {

/// The category whose times an operation counts in; `count`: none, it is compute's own.
StepClock::Work work_of(OpKind kind) {
  using Work = StepClock::Work;
  switch (kind) {
    case OpKind::gather:
    case OpKind::gather_secondary:
    case OpKind::exchange:
    case OpKind::refresh:
      return Work::gather;
    case OpKind::reduce:
    case OpKind::gather_sum:
    case OpKind::reduce_over_replicas:
    case OpKind::gather_over_replicas:
      return Work::reduce;
    case OpKind::update:
      return Work::update;
    case OpKind::keep_secondary:
    case OpKind::forward:
    case OpKind::clear_gradients:
    case OpKind::backward:
    case OpKind::end_reduce:
      return Work::count;
  }
  return Work::count;
}

/// Runs `enqueue` and measures the work, where it is of a kind that the clock measures.
template <class Enqueue>
void timed(StepClock& clock, OpKind kind, const Stream& stream, const Enqueue& enqueue) {
  if (const auto work = work_of(kind); work != StepClock::Work::count) {
    clock.working(work, stream, enqueue);
  } else {
    enqueue();
  }
}

template <class Handler>
void require(const Handler& handler, const Op& op) {
  if (!handler)
    throw std::logic_error(std::string("a schedule has no handler of ") + name_of(op.kind));
}

Finish started(const OpHandlers::Start& handler, const Op& op) {
  require(handler, op);
  return handler(op);
}

Finish enqueued(const OpHandlers::Enqueue& handler, const Op& op) {
  require(handler, op);
  handler(op);
  return {};
}

/// Runs one operation. An empty result says that the operation ends when its stream has come past
/// it.
Finish run(const OpHandlers& handlers, const Op& op) {
  switch (op.kind) {
    case OpKind::gather:
      return started(handlers.gather, op);
    case OpKind::gather_secondary:
      return started(handlers.gather_secondary, op);
    case OpKind::exchange:
      return started(handlers.exchange, op);
    case OpKind::keep_secondary:
      return enqueued(handlers.keep_secondary, op);
    case OpKind::forward:
      return enqueued(handlers.forward, op);
    case OpKind::backward:
      return enqueued(handlers.backward, op);
    case OpKind::clear_gradients:
      return enqueued(handlers.clear_gradients, op);
    case OpKind::reduce:
      return started(handlers.reduce, op);
    case OpKind::end_reduce:
      return {};  // nothing to run: only its waits matter
    case OpKind::gather_sum:
      return enqueued(handlers.gather_sum, op);
    case OpKind::reduce_over_replicas:
      return enqueued(handlers.reduce_over_replicas, op);
    case OpKind::gather_over_replicas:
      return enqueued(handlers.gather_over_replicas, op);
    case OpKind::update:
      return enqueued(handlers.update, op);
    case OpKind::refresh:
      return started(handlers.refresh, op);
  }
  return {};
}

}  // namespace

/// One run of a schedule: an event for each operation, and what is left of started collectives.
class Executor::Execution {
 public:
  Execution(const Executor& executor, const Schedule& schedule, const OpHandlers& handlers,
            StepClock& clock)
      : executor_(executor),
        ops_(schedule.ops),
        handlers_(handlers),
        clock_(clock),
        events_(ops_.size()),
        pending_(ops_.size()) {}

  void run_all() {
    const Stream& compute = executor_.compute();
    clock_.origin(compute);
    Event begin;
    compute.record(begin);
    // Refreshes that are under way have memory in the arena. Layers read there what gathers wrote,
    // which wait here, and write there in backward alone, when the forward of each has waited for
    // its own units' refreshes: all units are in layers.
    Event refreshed;
    executor_.stream(ends_on(StreamId::gather)).record(refreshed);
    for (const Stream& other : executor_.streams_) {
      other.wait(begin);
      if (&other != &compute) other.wait(refreshed);
    }
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      run_one(i);
      if (!executor_.overlap_) wait_for({i}, StreamId::compute);
    }
    clock_.waiting(compute, [&] {
      for (std::size_t i = 0; i < ops_.size(); ++i) finish(i);
      join_streams();
    });
    clock_.end(compute);
  }

 private:
  /// Makes compute wait for the streams of all operations but updates and refreshes: who needs what
  /// these make waits for them.
  void join_streams() const {
    std::bitset<kStreams> joined;
    for (const Op& op : ops_) {
      if (op.kind == OpKind::update || op.kind == OpKind::refresh) continue;
      for (const StreamId id : {op.stream, ends_on(op.stream)}) {
        joined.set(static_cast<std::size_t>(id));
      }
    }
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (joined[i]) executor_.join(static_cast<StreamId>(i));
    }
  }

  void run_one(std::size_t index) {
    const Op& op = ops_[index];
    const Stream& stream = executor_.stream(op.stream);
    const Range range(name_of(op.kind));
    clock_.phase(executor_.compute(), op.backward_phase);
    wait_for(op.waits_on, op.stream);
    if (handlers_.wait_for_earlier) handlers_.wait_for_earlier(op);
    timed(clock_, op.kind, stream, [&] { pending_[index] = run(handlers_, op); });
    if (!pending_[index]) {
      stream.record(events_[index]);
      return;
    }
    Event started;
    stream.record(started);
    executor_.stream(ends_on(op.stream)).wait(started);
    // A collective is finished when its result is needed where the host would wait, and at once
    // where only the stream waits: decoding does not queue behind what later gathers wait for. No
    // layer runs beside a refresh where the host waits, and several of them on one link end later
    // than one after the other.
    if (executor_.waits_on_stream_ || op.kind == OpKind::refresh) finish(index);
  }

  /// Time that compute waits for others is exposed; other streams wait in each other's shadow.
  void wait_for(const std::vector<std::size_t>& earlier, StreamId waiting) {
    const Stream& stream = executor_.stream(waiting);
    const auto complete_all = [&] {
      for (const std::size_t index : earlier) {
        finish(index);
        stream.wait(events_[index]);
      }
    };
    const bool others = std::ranges::any_of(
        earlier, [&](std::size_t index) { return ops_[index].stream != StreamId::compute; });
    if (waiting == StreamId::compute && others) {
      clock_.waiting(stream, complete_all);
    } else {
      complete_all();
    }
  }

  /// A collective enqueues its later hops and the decoding when it is finished: its event comes
  /// after them. Nothing to do for what is finished already.
  void finish(std::size_t index) {
    if (!pending_[index]) return;
    const Op& op = ops_[index];
    const Stream& end = executor_.stream(ends_on(op.stream));
    timed(clock_, op.kind, end, [&] { std::exchange(pending_[index], {})(end.handle()); });
    end.record(events_[index]);
  }

  const Executor& executor_;
  const std::vector<Op>& ops_;
  const OpHandlers& handlers_;
  StepClock& clock_;
  std::vector<Event> events_;    ///< by operation: it has ended
  std::vector<Finish> pending_;  ///< by operation: what is left of a collective
};

Executor::Executor(const Device& device, bool waits_on_stream, bool overlap)
    : streams_{device.make_stream("compute"),
               device.make_stream("gather", StreamPriority::high),
               device.make_stream("gather end", StreamPriority::high),
               device.make_stream("reduce", StreamPriority::high),
               device.make_stream("reduce end", StreamPriority::high),
               device.make_stream("secondary"),
               device.make_stream("update")},
      waits_on_stream_(waits_on_stream),
      overlap_(overlap) {}

void Executor::execute(const Schedule& schedule, const OpHandlers& handlers,
                       StepClock& clock) const {
  Execution(*this, schedule, handlers, clock).run_all();
}

void Executor::join(StreamId id) const {
  Event done;
  stream(id).record(done);
  compute().wait(done);
}

void Executor::join() const {
  for (std::size_t i = 0; i < kStreams; ++i) join(static_cast<StreamId>(i));
}

}  // namespace zeropp::zero

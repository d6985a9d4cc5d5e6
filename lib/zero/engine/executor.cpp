#include "lib/zero/engine/executor.hpp"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <utility>
#include <vector>

#include "lib/device/range.hpp"

namespace zeropp::zero {

namespace {

/// The category whose times an operation counts in; `count`: none, it is compute's own.
StepClock::Work work_of(OpKind kind) {
  using Work = StepClock::Work;
  if (kind == OpKind::update) return Work::update;
  if (kind == OpKind::agree) return Work::agreement;
  switch (sends(kind)) {
    case Sends::weights:
      return Work::gather;
    case Sends::gradients:
      return Work::reduce;
    case Sends::nothing:
      break;
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

}  // namespace

/// One run of a schedule: an event for each operation, and what is left of started collectives.
class Executor::Execution {
 public:
  Execution(const Executor& executor, const Schedule& schedule,
            const WaitForEarlier& wait_for_earlier, const RunOp& run, StepClock& clock)
      : executor_(executor),
        ops_(schedule.ops),
        wait_for_earlier_(wait_for_earlier),
        run_(run),
        clock_(clock),
        events_(ops_.size()),
        pending_(ops_.size()) {}

  void run_all() {
    const Stream& compute = executor_.compute();
    clock_.origin(compute);
    Event begin;
    compute.record(begin);
    // Refreshes of the last update may still use the arena. Gathers and reductions wait for them
    // here. Layers need not: each forward waits for its own units' refreshes, all units are in
    // layers, and layers write to the arena in backward only.
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
    clock_.phase(executor_.compute(), op.phase == Phase::backward);
    wait_for(op.waits_on, op.stream);
    wait_for_earlier_(op);
    timed(clock_, op.kind, stream, [&] { pending_[index] = run_(op); });
    if (!pending_[index]) {
      stream.record(events_[index]);
      return;
    }
    Event started;
    stream.record(started);
    executor_.stream(ends_on(op.stream)).wait(started);
    // Where finishing makes the host wait, a collective is finished when its result is needed.
    // Where only a stream waits it is finished at once, so that its decoding does not queue after
    // what later gathers wait for. Refreshes are always finished at once: where the host waits no
    // layer runs beside them, and several of them over one link end later than one after the other.
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
  const WaitForEarlier& wait_for_earlier_;
  const RunOp& run_;
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

void Executor::execute(const Schedule& schedule, const WaitForEarlier& wait_for_earlier,
                       const RunOp& run, StepClock& clock) const {
  Execution(*this, schedule, wait_for_earlier, run, clock).run_all();
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

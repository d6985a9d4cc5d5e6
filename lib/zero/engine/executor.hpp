// Executes a schedule: owns the streams, records an event for each operation, makes streams wait
// for the events that an operation names, and finishes collectives that were only started. What an
// operation does is the handlers' to say; the executor knows streams and order, and neither
// weights nor gradients. Host-driven transports block in a collective's completion, which therefore
// comes as late as its result is needed; where only a stream waits, it is enqueued at once.
// Throws what handlers throw; work that was enqueued before goes on.
#pragma once

#include <array>
#include <functional>

#include "lib/device/device.hpp"
#include "lib/device/stream.hpp"
#include "lib/zero/engine/step_clock.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

/// The rest of a collective that was started: enqueues its later hops and the decoding on the given
/// stream, which is ends_on() of the stream it was started on. Called once.
using Finish = std::function<void(StreamHandle)>;

/// Handlers of operations, by kind. All calls come from execute(), in the order of the schedule;
/// the `Op` lives as long as the schedule. A kind that the schedule does not have needs no handler.
struct OpHandlers {
  /// Enqueues the whole operation on `op.stream`.
  using Enqueue = std::function<void(const Op& op)>;
  /// Starts a collective on `op.stream`, and returns the rest of it.
  using Start = std::function<Finish(const Op& op)>;

  /// Makes the stream of an operation wait for what lies outside of the schedule. Called before
  /// each operation.
  Enqueue wait_for_earlier{};
  Start gather{};
  Start gather_secondary{};
  Start exchange{};
  Enqueue keep_secondary{};
  Enqueue forward{};
  Enqueue clear_gradients{};
  Enqueue backward{};
  Start reduce{};
  Enqueue gather_sum{};
  Enqueue reduce_over_replicas{};
  Enqueue gather_over_replicas{};
  Enqueue update{};
  Start refresh{};
};

class Executor {
 public:
  /// `waits_on_stream`: collectives make streams wait, else the host (comm::Groups). `overlap`:
  /// false lets every operation complete before compute goes on. `device` outlives this.
  Executor(const Device& device, bool waits_on_stream, bool overlap);

  /// Enqueues all operations of `schedule`; `clock` takes the times. It begins after all work that
  /// compute has so far; what refreshes an earlier schedule left under way, only layers begin
  /// beside. When it returns, compute waits for all operations but updates and refreshes, and the
  /// host has waited only where a handler does. Throws std::logic_error where a handler is missing.
  void execute(const Schedule& schedule, const OpHandlers& handlers, StepClock& clock) const;

  [[nodiscard]] const Stream& stream(StreamId id) const {
    return streams_.at(static_cast<std::size_t>(id));
  }
  [[nodiscard]] const Stream& compute() const { return stream(StreamId::compute); }
  /// Makes the compute stream wait for everything enqueued on the other streams.
  void join() const;

 private:
  class Execution;
  void join(StreamId id) const;

  std::array<Stream, kStreams> streams_;  ///< by StreamId
  bool waits_on_stream_;
  bool overlap_;
};

}  // namespace zeropp::zero

// Executes a schedule: owns the streams, records an event for each operation, makes streams wait
// for the events that an operation names, and finishes collectives that were only started. The
// caller says what an operation does (step_operations.hpp); the executor knows streams and order,
// and neither weights nor gradients. Host-driven transports block in a collective's completion,
// which therefore comes as late as its result is needed; where only a stream waits, it is enqueued
// at once. Throws what operations throw; work that was enqueued before continues.
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

/// Makes the stream of an operation wait for what lies outside of the schedule. Called before each
/// operation runs.
using WaitForEarlier = std::function<void(const Op& op)>;
/// Enqueues an operation on its stream, or starts a collective there and returns the rest of it.
/// Called in the order of the schedule; the `Op` lives as long as the schedule.
using RunOp = std::function<Finish(const Op& op)>;

class Executor {
 public:
  /// `waits_on_stream`: collectives make streams wait, else the host (comm::Groups). `overlap`:
  /// false lets every operation complete before compute continues. `device` outlives this.
  Executor(const Device& device, bool waits_on_stream, bool overlap);

  /// Enqueues all operations of `schedule`; `clock` takes the times. It begins after all work that
  /// compute has so far; what refreshes an earlier schedule left under way, only layers begin
  /// beside. When it returns, compute waits for all operations but updates and refreshes, and the
  /// host has waited only where an operation does.
  void execute(const Schedule& schedule, const WaitForEarlier& wait_for_earlier, const RunOp& run,
               StepClock& clock) const;

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

#include "lib/comm/orderly_end.hpp"

#include <future>
#include <thread>
#include <utility>

namespace zeropp::comm {

void end_orderly(const EndCalls& calls, Seconds deadline, Seconds abort_deadline) {
  Progress progress = calls.finalize();
  if (progress == Progress::pending) {
    progress = poll([&](Seconds) { return calls.state(); }, deadline);
  }
  if (progress == Progress::done && calls.destroy() != Progress::failed) return;
  end_by_force(calls, abort_deadline);
}

void end_by_force(const EndCalls& calls, Seconds deadline) {
  // The thread may outlive this call: it owns all that it uses.
  std::promise<void> promise;
  const std::future<void> ended = promise.get_future();
  std::thread([abort = calls.abort, promise = std::move(promise)]() mutable {
    abort();
    promise.set_value();
  }).detach();
  if (ended.wait_for(deadline) != std::future_status::ready) calls.give_up();
}

}  // namespace zeropp::comm

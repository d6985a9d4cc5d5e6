#include "lib/comm/orderly_end.hpp"

#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace zeropp::comm {

namespace {

/// What `call` returns, or nothing where it does not return within `deadline`: its thread may
/// outlive this function, and owns all that it uses. Where no thread can be had, without a
/// deadline.
std::optional<bool> within(Seconds deadline, const std::function<bool()>& call) {
  std::promise<bool> promise;
  std::future<bool> result = promise.get_future();
  try {
    std::thread([call, promise = std::move(promise)]() mutable {
      promise.set_value(call());
    }).detach();
  } catch (const std::system_error&) {
    return call();
  }
  if (result.wait_for(deadline) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace

void end_orderly(const EndCalls& calls, Seconds deadline, Seconds abort_deadline) {
  if (!within(deadline, calls.finish).value_or(false)) end_by_force(calls, abort_deadline);
}

void end_by_force(const EndCalls& calls, Seconds deadline) {
  const auto abort = [abort = calls.abort] {
    abort();
    return true;
  };
  if (!within(deadline, abort)) calls.give_up();
}

}  // namespace zeropp::comm

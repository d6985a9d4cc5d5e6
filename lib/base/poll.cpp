#include "lib/base/poll.hpp"

#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace zeropp {

void pause_after(Seconds waited) {
  constexpr Seconds kShort{0.02};  // a sleep lasts twice what is asked: it would show in times
  if (waited < kShort) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

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

}  // namespace zeropp

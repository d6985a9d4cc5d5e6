#include "lib/comm/within.hpp"

#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace zeropp::comm {

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

}  // namespace zeropp::comm

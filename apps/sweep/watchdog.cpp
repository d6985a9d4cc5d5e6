#include "apps/sweep/watchdog.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace zeropp::sweep {

Watchdog::Watchdog(double seconds, std::string what) {
  if (seconds <= 0) return;
  thread_ = std::thread([this, seconds, what = std::move(what)] {
    std::unique_lock lock(mutex_);
    if (finished_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [this] { return done_; })) {
      return;
    }
    log::error(
        fmt::format("{} took longer than {} s (--timeout, -T): a rank hangs, or the limit is "
                    "too low",
                    what, seconds));
    std::_Exit(static_cast<int>(ExitCode::watchdog));
  });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  finished_.notify_one();
  thread_.join();
}

}  // namespace zeropp::sweep

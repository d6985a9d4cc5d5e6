// Waiting on the host, against a deadline: for something that is asked again and again, and for a
// call that may never return.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace zeropp {

using Seconds = std::chrono::duration<double>;

enum class Progress { done, pending, failed };

/// Yields, or sleeps for a little when `waited` is no longer short: what comes at once is found at
/// once.
void pause_after(Seconds waited);

/// Calls ask(time waited so far) until the answer is not `pending`, or the deadline has passed:
/// then `pending`. Asks at least once.
template <class Ask>
Progress poll(Ask&& ask, Seconds deadline) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const Seconds waited = std::chrono::steady_clock::now() - begin;
    const Progress progress = ask(waited);
    if (progress != Progress::pending || waited >= deadline) return progress;
    pause_after(waited);
  }
}

/// Result of `call`, or nothing where it does not return within `deadline`: it runs on a thread
/// that may outlive this function, and owns all that it uses. Where no thread can be had, it runs
/// without a deadline.
std::optional<bool> within(Seconds deadline, const std::function<bool()>& call);

}  // namespace zeropp

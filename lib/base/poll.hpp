// Waiting on the host for something that is asked again and again, against a deadline.
#pragma once

#include <chrono>

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

}  // namespace zeropp

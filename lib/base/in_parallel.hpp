// Independent calls, on as many threads as there are processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace zeropp {

/// Results of call(0) to call(count - 1), in that order, whichever ends first. Throws what the
/// first of them throws that does, after all have ended. Calls share nothing that they change.
template <class Call>
auto in_parallel(std::size_t count, const Call& call) {
  constexpr std::size_t kMostThreads = 16;  // each reserves address space
  using Result = decltype(call(std::size_t{0}));
  std::vector<std::packaged_task<Result()>> tasks;
  for (std::size_t i = 0; i < count; ++i) tasks.emplace_back([&call, i] { return call(i); });
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) tasks[i]();
  };
  const std::size_t threads = std::min(
      {count, kMostThreads, static_cast<std::size_t>(std::thread::hardware_concurrency())});
  {
    std::vector<std::future<void>> others;
    for (std::size_t i = 1; i < threads; ++i) {
      others.push_back(std::async(std::launch::async, work));
    }
    work();
  }  // which waits for them
  std::vector<Result> results;
  for (std::packaged_task<Result()>& task : tasks) results.push_back(task.get_future().get());
  return results;
}

}  // namespace zeropp

// Threads that share a rank's work on the host: what goes over gigabytes there. The host's kernels
// run in them: where those have threads of their own, they share the work instead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <future>
#include <vector>

namespace zeropp {

class Workers {
 public:
  explicit Workers(std::size_t count) : count_(std::max<std::size_t>(1, count)) {}
  /// Workers for this rank: as many as its share of its host's processors, of those that it may
  /// use.
  static Workers on_this_host(int host_ranks);

  [[nodiscard]] std::size_t count() const { return count_; }

  /// Calls task(worker, i) for each i in [0, n), every worker a range of its own, in order. Done
  /// when it returns. Throws the first worker's exception once all have ended.
  template <class Task>
  void parallel_for(std::size_t n, const Task& task) const {
    const std::size_t used = std::max<std::size_t>(1, std::min(count_, n));
    const auto work = [&](std::size_t worker) {
      for (std::size_t i = n * worker / used; i < n * (worker + 1) / used; ++i) task(worker, i);
    };
    std::vector<std::future<void>> others;  // join when destroyed
    for (std::size_t worker = 1; worker < used; ++worker) {
      others.push_back(std::async(std::launch::async, work, worker));
    }
    work(0);
    for (auto& other : others) other.get();
  }

 private:
  std::size_t count_;
};

}  // namespace zeropp

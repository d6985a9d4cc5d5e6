#include "lib/comm/turns.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace zeropp::comm {

void Turns::run(const std::function<void(std::size_t index)>& body) {
  std::vector<std::thread> running;
  for (std::size_t index = 0; index < threads_.size(); ++index) {
    running.emplace_back([&, index] { body_of(index, body); });
  }
  for (std::thread& thread : running) thread.join();
  if (failure_) std::rethrow_exception(failure_);
}

void Turns::body_of(std::size_t index, const std::function<void(std::size_t)>& body) {
  std::unique_lock lock(mutex_);
  threads_[index].turn.wait(lock, [&] { return current_ == index; });
  lock.unlock();
  try {
    require_others();
    body(index);
  } catch (const Abandoned&) {
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
  threads_[index].done = true;
  pass_on(index);
}

void Turns::require_others() const {
  if (failure_) throw Abandoned{};
}

void Turns::wait(std::size_t index, const Condition& condition) {
  require_others();
  if (condition()) return;
  threads_[index].waits_for = &condition;
  pass_on(index);
  {
    std::unique_lock lock(mutex_);
    threads_[index].turn.wait(lock, [&] { return current_ == index; });
  }
  threads_[index].waits_for = nullptr;
  require_others();
}

void Turns::pass_on(std::size_t index) {
  const auto is_ready = [&](const Thread& thread) {
    return !thread.done && (failure_ || thread.waits_for == nullptr || (*thread.waits_for)());
  };
  const auto next_of = [&] {
    for (std::size_t step = 1; step <= threads_.size(); ++step) {
      const std::size_t next = (index + step) % threads_.size();
      if (is_ready(threads_[next])) return next;
    }
    return threads_.size();
  };
  std::size_t next = next_of();
  if (next == threads_.size() && !std::ranges::all_of(threads_, &Thread::done)) {
    failure_ = std::make_exception_ptr(
        std::logic_error("every virtual rank waits for another: their operations do not match"));
    next = next_of();
  }
  if (next == threads_.size()) return;
  const std::lock_guard lock(mutex_);
  current_ = next;
  threads_[next].turn.notify_one();
}

}  // namespace zeropp::comm

#include "lib/comm/turns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "lib/base/error.hpp"

namespace zeropp::comm {

void Turns::run(const std::function<void(std::size_t index)>& body) {
  std::vector<std::thread> running;
  try {
    for (std::size_t index = 0; index < threads_.size(); ++index) {
      running.emplace_back([&, index] { body_of(index, body); });
    }
  } catch (const std::exception& error) {
    failure_ = std::make_exception_ptr(Error(
        ExitCode::environment,
        fmt::format("no thread for virtual rank {} of {} ({}): lower --virtual-ranks, or raise "
                    "the limits of processes (ulimit -u) and of memory (ulimit -v), of which each "
                    "takes a stack (ulimit -s)",
                    running.size(), threads_.size(), error.what())));
  }
  // No thread has run so far: those that could not start are left out.
  for (std::size_t index = running.size(); index < threads_.size(); ++index) {
    threads_[index].done = true;
  }
  if (!running.empty()) give_turn(0);
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
  if (next < threads_.size()) give_turn(next);
}

void Turns::give_turn(std::size_t index) {
  const std::lock_guard lock(mutex_);
  current_ = index;
  threads_[index].turn.notify_one();
}

}  // namespace zeropp::comm

// Threads of one process that take turns: one runs at a time, until it waits for what another does.
// So they may use libraries that no two threads may be in, they need no locks, and a run of them is
// the same every time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace zeropp::comm {

class Turns {
 public:
  using Condition = std::function<bool()>;

  explicit Turns(std::size_t threads) : threads_(threads), current_(threads) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Runs `body(index)` in a thread each, to their ends. Where one throws, the others end at their
  /// next wait, and the first exception is thrown here. Throws std::logic_error where every thread
  /// waits for another, Error(environment) where a thread cannot be started. Call it once.
  void run(const std::function<void(std::size_t index)>& body);

  /// Lets others run until `condition` holds: called by thread `index`. The threads' work alone
  /// changes whether it does.
  void wait(std::size_t index, const Condition& condition);
  /// Ends this thread if another has failed.
  void require_others() const;

 private:
  struct Thread {
    std::condition_variable turn;
    const Condition* waits_for = nullptr;  ///< null: for its turn alone
    bool done = false;
  };
  /// Thrown in threads after another has failed.
  struct Abandoned {};

  void body_of(std::size_t index, const std::function<void(std::size_t)>& body);
  /// Gives the turn to the next thread after `index` that need not wait.
  void pass_on(std::size_t index);
  void give_turn(std::size_t index);

  std::vector<Thread> threads_;
  std::mutex mutex_;
  std::size_t current_;  ///< thread that has the turn; threads_.size(): none has
  std::exception_ptr failure_;
};

}  // namespace zeropp::comm

#include "lib/comm/call_watch.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp::comm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{1000};

class Watcher {
 public:
  static Watcher& of_process() {
    static Watcher watcher;
    return watcher;
  }
  ~Watcher() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void begin(Seconds deadline, const std::function<std::string()>& describe) {
    const std::lock_guard lock(mutex_);
    describe_ = &describe;
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    describe_ = nullptr;
  }
  void on_late(std::function<void(const std::string&)> instead) {
    const std::lock_guard lock(mutex_);
    instead_ = std::move(instead);
  }

 private:
  void look() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      (void)changed_.wait_for(lock, kLook);
      if (describe_ == nullptr || Clock::now() < end_) continue;
      const std::string line = (*describe_)();
      describe_ = nullptr;
      if (instead_) {
        instead_(line);
        continue;
      }
      std::fprintf(stderr, "zeropp: %s\n", line.c_str());
      _exit(static_cast<int>(ExitCode::watchdog));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<std::string()>* describe_ = nullptr;  ///< of the call that runs
  Clock::time_point end_;
  std::function<void(const std::string&)> instead_;
  bool over_ = false;
  std::thread thread_{[this] { look(); }};  // last: it uses all of the above
};

}  // namespace

CallWatch::CallWatch(Seconds deadline, const std::function<std::string()>& describe) {
  Watcher::of_process().begin(deadline, describe);
}

CallWatch::~CallWatch() { Watcher::of_process().end(); }

void CallWatch::on_late(std::function<void(const std::string&)> instead) {
  Watcher::of_process().on_late(std::move(instead));
}

}  // namespace zeropp::comm

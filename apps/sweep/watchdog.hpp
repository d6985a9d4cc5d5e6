// A deadline for a piece of work: when it passes, one line on standard error, and the process ends
// with exit code 124 and the launcher the job. For collectives that wait for a rank that does not
// come: nothing else would end them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace zeropp::sweep {

class Watchdog {
 public:
  /// `seconds` of 0: no limit, and no thread. `what` begins the line.
  Watchdog(double seconds, std::string what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace zeropp::sweep

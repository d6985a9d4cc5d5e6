// A deadline for calls into a library that wait there for other ranks, where nothing can be polled:
// when it passes, one line on standard error, and the process ends with exit code 124 and the
// launcher the job. One thread for the process, started with the first call, looks once a second; a
// call itself costs two locks that nobody holds.
#pragma once

#include <functional>
#include <string>

#include "lib/base/poll.hpp"

namespace zeropp::comm {

class CallWatch {
 public:
  /// The calls of this object's life, of one thread at a time. `describe` gives the line and lives
  /// as long as the object.
  CallWatch(Seconds deadline, const std::function<std::string()>& describe);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// What happens when a deadline has passed, instead of the end of the process: for tests. Empty:
  /// the end.
  static void on_late(std::function<void(const std::string&)> instead);
};

}  // namespace zeropp::comm

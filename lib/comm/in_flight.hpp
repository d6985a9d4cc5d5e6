// Whether an operation was waited for. One that is dropped ends the program, unless an exception
// passes: then its owner was on its way out.
#pragma once

#include <cstdio>
#include <exception>

namespace zeropp::comm {

class InFlight {
 public:
  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() {
    if (complete_ || unwinding()) return;
    std::fputs("zeropp: an operation in flight was dropped: call Work::wait() first\n", stderr);
    std::terminate();
  }

  void complete() { complete_ = true; }
  [[nodiscard]] bool is_complete() const { return complete_; }
  /// An exception was thrown since the operation began and is not caught yet.
  [[nodiscard]] bool unwinding() const { return std::uncaught_exceptions() > exceptions_; }

 private:
  bool complete_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace zeropp::comm

// A stream of device work and an event in it: owned, move-only. On the host a stream runs inline:
// work is done when the call that enqueued it returns, and an event is complete as soon as it is
// recorded. One engine therefore serves both back ends.
#pragma once

#include "kernels/core/stream.hpp"

namespace zeropp {

class Stream {
 public:
  Stream() = default;  ///< the host's
  [[nodiscard]] StreamHandle handle() const { return handle_; }

 private:
  StreamHandle handle_;
};

class Event {
 public:
  /// Marks the work enqueued on `stream` so far.
  void record(const Stream& stream) { (void)stream; }
  /// Work enqueued on `stream` from now on begins after the marked work.
  void wait_on(const Stream& stream) const { (void)stream; }
};

}  // namespace zeropp

// A stream of device work and an event in it: owned, move-only. On the host a stream runs inline:
// work is done when the call that enqueued it returns, and an event is complete as soon as it is
// recorded. One engine therefore serves both back ends.
#pragma once

#include "kernels/core/stream.hpp"

namespace zeropp {

/// A point in a stream.
class Event {
 public:
  Event() = default;
  Event(Event&&) = default;
  Event& operator=(Event&&) = default;
};

class Stream {
 public:
  Stream() = default;  ///< the host's
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = default;

  [[nodiscard]] StreamHandle handle() const { return handle_; }
  /// `event` marks the work enqueued here so far.
  void record(Event& event) const { (void)event; }
  /// Work enqueued here from now on begins after what `event` marks.
  void wait(const Event& event) const { (void)event; }
  /// Returns when all work enqueued here is done.
  void synchronize() const {}

 private:
  StreamHandle handle_;
};

}  // namespace zeropp

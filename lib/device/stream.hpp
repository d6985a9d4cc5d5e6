// A stream of device work, an event and a time mark in it: owned, move-only. On the host a stream
// runs inline: work is done when the call that enqueued it returns, and an event is complete as
// soon as it is recorded. One engine therefore serves both back ends.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/core/stream.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp {

/// A point in a stream. One that was never recorded is in the past.
class Event {
 public:
  Event() = default;
  ~Event() {
    if (native_ != nullptr) runtime_->release_event(native_);
  }
  Event(Event&& other) noexcept
      : runtime_(other.runtime_), native_(std::exchange(other.native_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(native_, other.native_);
    return *this;
  }

  /// Returns when the stream has come to this point.
  void synchronize() const {
    if (native_ != nullptr) runtime_->synchronize_event(native_);
  }

 private:
  friend class Stream;
  const Runtime* runtime_ = nullptr;
  void* native_ = nullptr;
};

/// A point in a stream that knows when it was reached. One that was never set is nowhere.
class Mark {
 public:
  Mark() = default;
  ~Mark() {
    if (native_ != nullptr) runtime_->release_mark(native_);
  }
  Mark(Mark&& other) noexcept
      : runtime_(other.runtime_), native_(std::exchange(other.native_, nullptr)) {}
  Mark& operator=(Mark&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(native_, other.native_);
    return *this;
  }

  /// Seconds from `earlier` to this one; both were set on streams of one device, which have reached
  /// them (synchronize first).
  [[nodiscard]] double seconds_since(const Mark& earlier) const {
    return runtime_->seconds_between(earlier.native_, native_);
  }

 private:
  friend class Stream;
  const Runtime* runtime_ = nullptr;
  void* native_ = nullptr;
};

/// A stream of the back end. Not all are owned: `borrow` wraps the handle of another.
class Stream {
 public:
  Stream() = default;  ///< the host's
  /// `name` is what profilers show.
  Stream(const Runtime& runtime, const char* name, StreamPriority priority = StreamPriority::normal)
      : runtime_(&runtime), handle_{runtime.make_stream(name, priority)}, owned_(true) {}
  ~Stream() {
    if (owned_) runtime_->release_stream(handle_.native);
  }
  Stream(Stream&& other) noexcept
      : runtime_(other.runtime_),
        handle_(other.handle_),
        owned_(std::exchange(other.owned_, false)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(handle_, other.handle_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  static Stream borrow(const Runtime& runtime, StreamHandle handle) {
    Stream stream;
    stream.runtime_ = &runtime;
    stream.handle_ = handle;
    return stream;
  }

  [[nodiscard]] StreamHandle handle() const { return handle_; }
  [[nodiscard]] const Runtime& runtime() const { return *runtime_; }
  /// Enqueues a copy between any two kinds of memory. Memory that is not pinned may make the host
  /// wait; host memory may be used again when the copy is done.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
    if (bytes > 0) runtime_->copy(to, from, bytes, handle_.native);
  }
  /// Records `event` after the work enqueued here so far.
  void record(Event& event) const {
    if (event.native_ == nullptr) {
      event.runtime_ = runtime_;
      event.native_ = runtime_->make_event();
    }
    runtime_->record(event.native_, handle_.native);
  }
  /// Makes `mark` get the time when the work enqueued here so far is done. May be set again.
  void set(Mark& mark) const {
    if (mark.native_ == nullptr) {
      mark.runtime_ = runtime_;
      mark.native_ = runtime_->make_mark();
    }
    runtime_->set_mark(mark.native_, handle_.native);
  }
  /// Work enqueued here from now on begins after what `event` marks.
  void wait(const Event& event) const {
    if (event.native_ != nullptr) runtime_->wait(handle_.native, event.native_);
  }
  /// Returns when all work enqueued here is done.
  void synchronize() const { runtime_->synchronize(handle_.native); }

 private:
  const Runtime* runtime_ = &host_runtime();
  StreamHandle handle_;
  bool owned_ = false;
};

}  // namespace zeropp

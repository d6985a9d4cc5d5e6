// Graph of work that was enqueued on a stream once, kept to be run again by one call: owned,
// move-only. Memory that its work uses outlives it. Where a back end has no graphs there are none
// to make.
#pragma once

#include <utility>

#include "lib/device/stream.hpp"

namespace zeropp {

class Graph {
 public:
  Graph() = default;
  /// `enqueue()` puts work on `stream`, and on other streams only between waiting for it and having
  /// it wait for them; it does not wait for the GPU. Nothing of it runs before launch().
  template <class Enqueue>
  Graph(const Stream& stream, Enqueue&& enqueue) : runtime_(&stream.runtime()) {
    runtime_->begin_graph(stream.handle().native);
    try {
      enqueue();
    } catch (...) {
      runtime_->drop_graph(
          stream.handle().native);  // else what unwinds meets a stream that records
      throw;
    }
    native_ = runtime_->end_graph(stream.handle().native);
  }
  ~Graph() {
    if (native_ != nullptr) runtime_->release_graph(native_);
  }
  Graph(Graph&& other) noexcept
      : runtime_(other.runtime_), native_(std::exchange(other.native_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(native_, other.native_);
    return *this;
  }

  void launch(const Stream& stream) const {
    runtime_->launch_graph(native_, stream.handle().native);
  }

 private:
  const Runtime* runtime_ = nullptr;
  void* native_ = nullptr;
};

}  // namespace zeropp

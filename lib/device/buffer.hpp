// Owned memory of any kind, move-only, aligned to 256 bytes (the alignment that tensors have inside
// units). Allocating and freeing device memory may wait for the device: make buffers before the
// work, not in it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/core/view.hpp"
#include "lib/base/error.hpp"

namespace zeropp {

class Buffer {
 public:
  Buffer() = default;
  /// Uninitialised memory of `bytes` bytes; empty when 0. Throws Error(environment) when there is
  /// none.
  Buffer(std::size_t bytes, MemoryKind kind);
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;

  /// Allocates memory that comm::Communicator::register_memory() can take.
  static Buffer registrable(std::size_t bytes, MemoryKind kind);
  /// Zeroed memory for `count` elements, ready on return.
  static Buffer zeros(std::size_t count, Dtype dtype, MemoryKind kind);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }
  /// The buffer (from `offset` bytes on) as `count` elements; the caller keeps it inside.
  [[nodiscard]] View view(std::size_t count, Dtype dtype, std::size_t offset = 0) const {
    return {memory_.get() + offset, count, dtype, kind_};
  }

 private:
  Buffer(std::size_t bytes, MemoryKind kind, bool registrable);

  struct Release {
    std::size_t bytes;
    MemoryKind kind;
    bool registrable;
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Release> memory_{nullptr, Release{0, MemoryKind::host, false}};
  std::size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::host;
};

/// Error with exit code `environment`; the message is one line, as of any Error.
class OutOfMemory : public Error {
 public:
  OutOfMemory(MemoryKind kind, const std::string& message)
      : Error(ExitCode::environment, message), kind_(kind) {}
  /// Kind of the memory that ran out.
  [[nodiscard]] MemoryKind kind() const { return kind_; }

 private:
  MemoryKind kind_;
};

}  // namespace zeropp

// A table of plain values in the memory of a device, written once, when it is made: what kernels
// read of arrays that stay where they are from step to step. Owns its memory.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"

namespace zeropp {

template <class T>
class Table {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Table() = default;
  /// A copy of `values`, ready on return for any stream. Throws Error(environment) when there is no
  /// memory.
  Table(std::span<const T> values, const Device& device)
      : count_(values.size()), memory_(values.size_bytes(), device.memory) {
    const Stream stream = Stream::borrow(*device.runtime, {});
    stream.copy(memory_.data(), reinterpret_cast<const std::byte*>(values.data()),
                values.size_bytes());
    stream.synchronize();
  }

  /// The table, in the memory of the device.
  [[nodiscard]] std::span<const T> all() const {
    return {reinterpret_cast<const T*>(memory_.data()), count_};
  }

  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }

 private:
  std::size_t count_ = 0;
  Buffer memory_;
};

}  // namespace zeropp

// Typed memory where the test's operations run (test::device()), filled from and compared with host
// memory: on the host back end that is host memory as well, and nothing else differs. Everything
// runs on stream(); uploads and downloads wait for it.
#pragma once

#include <cstddef>
#include <span>

#include "lib/device/buffer.hpp"
#include "lib/device/stream.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/patterns.hpp"

namespace zeropp::test {

/// The stream of the tests, made at first use and kept until the process ends: device memory may be
/// released after everything that has a destructor.
inline const Stream& stream() {
  static const auto* const instance = new Stream(device().make_stream("test"));
  return *instance;
}

/// Bytes on the device: copies of host memory, or 0xA5.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes)
      : DeviceBytes(std::vector<std::byte>(bytes, std::byte{0xA5})) {}
  explicit DeviceBytes(std::span<const std::byte> host) : buffer_(host.size(), device().memory) {
    upload(host);
  }

  [[nodiscard]] std::byte* data() const { return buffer_.data(); }
  [[nodiscard]] std::size_t size() const { return buffer_.bytes(); }
  [[nodiscard]] std::span<std::byte> span() const { return buffer_.span(); }
  void upload(std::span<const std::byte> host) const {
    stream().copy(buffer_.data(), host.data(), host.size());
    stream().synchronize();
  }
  /// Bytes that the stream's work so far has left.
  [[nodiscard]] std::vector<std::byte> download() const {
    std::vector<std::byte> host(buffer_.bytes());
    stream().copy(host.data(), buffer_.data(), host.size());
    stream().synchronize();
    return host;
  }

 private:
  Buffer buffer_;
};

/// Elements on the device: copies of `host`, or 0xA5.
struct OnDevice {
  OnDevice(std::size_t count, Dtype dtype)
      : memory(count * size_of(dtype)), view(memory.data(), count, dtype, device().memory) {}
  explicit OnDevice(const Poisoned& host) : OnDevice(host.view.count, host.view.dtype) {
    memory.upload(host.bytes);
  }
  [[nodiscard]] Poisoned download() const {
    Poisoned host(view.count, view.dtype);
    memory.download().swap(host.bytes);
    host.view.data = host.bytes.data();
    return host;
  }
  DeviceBytes memory;
  View view;
};

}  // namespace zeropp::test

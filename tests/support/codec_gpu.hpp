// Codecs of the GPU beside the host's: the same bytes in both memories, the same call on both, and
// the bytes compared, those around the outputs included.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "kernels/core/memory_ops.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/stream.hpp"
#include "tests/support/codec_cases.hpp"

namespace zeropp::test {

/// The stream of a test process.
inline const Stream& gpu_stream() {
  static const Stream stream(*cuda_runtime(), "test");
  return stream;
}

/// Copies between host and device an even number of bytes; done on return.
inline void copy_now(const std::byte* from, MemoryKind from_kind, std::byte* to, MemoryKind to_kind,
                     std::size_t bytes) {
  cuda_memory_ops()->copy(ConstView(from, bytes / 2, Dtype::bf16, from_kind),
                          View(to, bytes / 2, Dtype::bf16, to_kind), gpu_stream().handle());
  gpu_stream().synchronize();
}

/// Memory on the host and on the GPU with the same bytes at first: 0xA5 everywhere, guards before
/// and after the `bytes` that a test uses. `shift` moves those off the alignment of 256 bytes.
class Twin {
 public:
  explicit Twin(std::size_t bytes, std::size_t shift = 0)
      : bytes_(bytes),
        shift_(shift),
        host_(kGuard + (shift + bytes + 1) / 2 * 2 + kGuard, MemoryKind::host),
        device_(host_.bytes(), MemoryKind::device) {
    std::memset(host_.data(), 0xA5, host_.bytes());
    upload();
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::byte* host() const { return host_.data() + kGuard + shift_; }
  [[nodiscard]] std::byte* device() const { return device_.data() + kGuard + shift_; }
  [[nodiscard]] View host_view(std::size_t count, Dtype dtype) const {
    return {host(), count, dtype, MemoryKind::host};
  }
  [[nodiscard]] View device_view(std::size_t count, Dtype dtype) const {
    return {device(), count, dtype, MemoryKind::device};
  }

  /// The GPU gets the host's bytes.
  void upload() const {
    copy_now(host_.data(), MemoryKind::host, device_.data(), MemoryKind::device, host_.bytes());
  }

  /// Says where the GPU's bytes differ from the host's: element of `width` bytes (negative, or
  /// beyond the count, in a guard), what the GPU has and what the host has.
  [[nodiscard]] testing::AssertionResult same(std::size_t width) const {
    std::vector<std::byte> got(host_.bytes());
    copy_now(device_.data(), MemoryKind::device, got.data(), MemoryKind::host, got.size());
    if (std::memcmp(got.data(), host_.data(), got.size()) == 0) return testing::AssertionSuccess();
    std::size_t differing = 0;
    std::size_t first = got.size();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == host_.data()[i]) continue;
      ++differing;
      first = std::min(first, i);
    }
    const auto begin = static_cast<std::ptrdiff_t>(kGuard + shift_);
    const std::ptrdiff_t byte = static_cast<std::ptrdiff_t>(first) - begin;
    const auto w = static_cast<std::ptrdiff_t>(width);
    const std::ptrdiff_t element = byte >= 0 ? byte / w : (byte - w + 1) / w;
    const auto word = [&](const std::byte* from) {
      std::uint32_t bits = 0;
      const std::ptrdiff_t at = std::max<std::ptrdiff_t>(begin + element * w, 0);
      std::memcpy(&bits, from + at, width);
      return bits;
    };
    return testing::AssertionFailure() << fmt::format(
               "{} bytes differ; the first is byte {} of {} (element {} of {} bytes): "
               "GPU {:#x}, host {:#x}",
               differing, byte, bytes_, element, width, word(got.data()), word(host_.data()));
  }

 private:
  static constexpr std::size_t kGuard = 256;
  std::size_t bytes_;
  std::size_t shift_;
  Buffer host_;
  Buffer device_;
};

/// A codec on both back ends.
struct CodecPair {
  explicit CodecPair(const Binding& binding)
      : host(binding.spec, binding.memory, Backend::host),
        gpu(binding.spec, binding.memory, Backend::cuda) {}
  codec::Codec host;
  codec::Codec gpu;
};

/// `images` wire images on both, with a gap of 48 bytes after each.
class WireTwin {
 public:
  WireTwin(const codec::Codec& codec, std::size_t n, std::size_t images)
      : stride_(codec.wire_bytes(n) + 48), twin_(images * stride_) {}
  [[nodiscard]] codec::WireImages host() const { return {twin_.host(), stride_}; }
  [[nodiscard]] codec::WireImages gpu() const { return {twin_.device(), stride_}; }
  [[nodiscard]] const Twin& twin() const { return twin_; }
  [[nodiscard]] testing::AssertionResult same() const { return twin_.same(1); }

 private:
  std::size_t stride_;
  Twin twin_;
};

/// Fills memory with any bits at all, as values or as wire images: scales of any sign, infinite,
/// NaN.
inline void fill_with_noise(const Twin& twin, std::uint32_t seed) {
  std::mt19937 engine(seed);
  for (std::size_t i = 0; i < twin.bytes(); ++i) {
    twin.host()[i] = static_cast<std::byte>(engine() >> 24U);
  }
  twin.upload();
}

/// Stores `values` in the memory of both.
inline void fill_with(const Twin& twin, const std::vector<float>& values, Dtype dtype) {
  const Values converted(values, dtype);
  if (!values.empty()) {
    std::memcpy(twin.host(), converted.view().data, converted.view().bytes());
  }
  twin.upload();
}

}  // namespace zeropp::test

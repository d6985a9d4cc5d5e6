// ctest: name=gpu_memory_digest timeout=120
// The digest of memory on a GPU is the host's: for sizes from none to more than a grid takes in one
// turn, for views that begin at any word, and for one array in several views.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/memory_ops.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "tests/support/device_array.hpp"
#include "tests/support/digest_reference.hpp"

namespace zeropp {
namespace {

using test::DeviceArray;
using test::Floats;

const Device& digesting_gpu() {
  static const Device device = Device::cuda(0);
  return device;
}

class GpuDigest : public testing::Test {
 protected:
  GpuDigest() { clear(); }

  void clear() { digesting_gpu().memory_ops->clear(sum_.view(2, Dtype::fp32), {}); }
  void add(ConstView values, std::uint64_t first) {
    digesting_gpu().memory_ops->digest(values, first, reinterpret_cast<std::uint64_t*>(sum_.data()),
                                       {});
  }
  std::uint64_t sum() {
    std::uint64_t value = 0;
    const Stream stream = Stream::borrow(*digesting_gpu().runtime, {});
    stream.copy(reinterpret_cast<std::byte*>(&value), sum_.data(), sizeof(value));
    stream.synchronize();
    return value;
  }

 private:
  Buffer sum_{sizeof(std::uint64_t), digesting_gpu().memory};
};

TEST_F(GpuDigest, IsTheHosts) {
  for (const std::size_t count : {1U, 2U, 3U, 4U, 5U, 8U, 1023U, 4096U, 9'999'991U}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      const Floats values = test::normals(count, 1);
      const std::vector<std::byte> bytes = test::stored(values, dtype);
      const DeviceArray array(digesting_gpu(), values, dtype);
      clear();
      add(array.read(), 7);
      EXPECT_EQ(sum(), test::digest_of(bytes, 7)) << count << " of " << name_of(dtype);
    }
  }
}

TEST_F(GpuDigest, IsTheHostsAtAnyWord) {
  const Floats values = test::normals(2050, 2);
  const DeviceArray array(digesting_gpu(), values, Dtype::fp32);
  for (std::size_t first = 0; first < 6; ++first) {
    for (const std::size_t count : {0U, 1U, 2U, 5U, 2000U}) {
      clear();
      add(array.read().part(first, count), first);
      const auto part = std::as_bytes(std::span(values).subspan(first, count));
      EXPECT_EQ(sum(), test::digest_of(part, first)) << first << ", " << count;
    }
  }
}

TEST_F(GpuDigest, AddsUpOverViews) {
  const Floats values = test::normals(100'003, 3);
  const DeviceArray array(digesting_gpu(), values, Dtype::fp32);
  add(array.read().part(50'001, 50'002), 50'001);
  add(array.read().part(0, 50'001), 0);
  EXPECT_EQ(sum(), test::digest_of(std::as_bytes(std::span(values))));
}

TEST_F(GpuDigest, ReadsPageLockedMemoryOfTheHost) {
  const Floats values = test::normals(4099, 4);
  const Buffer pinned(values.size() * sizeof(float), MemoryKind::pinned);
  std::memcpy(pinned.data(), values.data(), pinned.bytes());
  add(pinned.view(values.size(), Dtype::fp32), 0);
  EXPECT_EQ(sum(), test::digest_of(pinned.span()));
}

TEST_F(GpuDigest, RefusesMemoryOfTheHost) {
  float value = 0;
  EXPECT_THROW(add(ConstView::of(&value, 1), 0), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp

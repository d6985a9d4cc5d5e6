// ctest: name=gpu_memory_probe timeout=120
// The plainest passes over a GPU's memory touch every byte of their views: sizes from none to more
// than a grid takes in one turn.
#include "kernels/core/memory_probe.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "lib/device/device.hpp"
#include "tests/support/device_array.hpp"

namespace zeropp {
namespace {

using test::DeviceArray;
using test::Floats;

const Device& gpu() {
  static const Device device = Device::cuda(0);
  return device;
}

const MemoryProbe& probe() { return *cuda_memory_probe(); }

constexpr std::size_t kCounts[] = {1, 3, 4, 5, 1023, 4096, 9'999'991};

TEST(GpuMemoryProbe, CopiesEveryByte) {
  for (const std::size_t count : kCounts) {
    const Floats values = test::normals(count, 1);
    const DeviceArray from(gpu(), values, Dtype::fp32);
    const DeviceArray to(gpu(), test::poisoned(count), Dtype::fp32);
    probe().copy(from.read(), to.view(), {});
    test::expect_same_bits(to.download(), values, std::to_string(count));
  }
}

TEST(GpuMemoryProbe, ReadsEveryWholeSixteenBytes) {
  for (const std::size_t count : kCounts) {
    const Floats values = test::normals(count, 2);
    std::uint32_t wanted = 0;
    for (std::size_t i = 0; i < count / 4 * 4; ++i) wanted ^= bits_of(values[i]);
    const DeviceArray from(gpu(), values, Dtype::fp32);
    const DeviceArray result(gpu(), Floats(1, 0.0F), Dtype::fp32);
    probe().read(from.read(), result.view(), {});
    EXPECT_EQ(bits_of(result.download().front()), wanted) << count;
  }
}

TEST(GpuMemoryProbe, WritesEveryByte) {
  for (const std::size_t count : kCounts) {
    const DeviceArray to(gpu(), test::poisoned(count), Dtype::fp32);
    probe().write(to.view(), {});
    test::expect_same_bits(to.download(), Floats(count, 0.0F), std::to_string(count));
  }
}

TEST(GpuMemoryProbe, RefusesHostMemory) {
  float value = 0;
  const View host = View::of(&value, 1);
  EXPECT_THROW(probe().copy(host, host, {}), std::invalid_argument);
  EXPECT_THROW(probe().read(host, host, {}), std::invalid_argument);
  EXPECT_THROW(probe().write(host, {}), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp

// ctest: name=memory_probe labels=sanitize
// The plainest passes over memory touch every byte of their views and none beside, whatever the
// size and the number of threads.
#include "kernels/core/memory_probe.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/core/half.hpp"

namespace zeropp {
namespace {

std::vector<float> random_words(std::size_t count, std::mt19937& engine) {
  std::vector<float> values(count);
  for (float& value : values) value = float_of(static_cast<std::uint32_t>(engine()) & 0x7F7FFFFFU);
  return values;
}

std::vector<std::size_t> counts(std::mt19937& engine) {
  std::vector<std::size_t> list{0, 1, 3, 4, 5, 31, 32, 33, 1023, 1024};
  for (int i = 0; i < 8; ++i) list.push_back(engine() % 100'000);
  return list;
}

TEST(MemoryProbe, CopiesEveryByteAndNoMore) {
  std::mt19937 engine(1);
  for (const std::size_t count : counts(engine)) {
    const std::vector<float> from = random_words(count + 2, engine);
    std::vector<float> to(count + 2, 7.0F);
    host_memory_probe().copy(ConstView::of(from.data() + 1, count), View::of(to.data() + 1, count),
                             {});
    EXPECT_EQ(to.front(), 7.0F);
    EXPECT_EQ(to.back(), 7.0F);
    EXPECT_TRUE(std::equal(from.begin() + 1, from.end() - 1, to.begin() + 1)) << count;
  }
}

TEST(MemoryProbe, ReadsEveryWholeSixteenBytes) {
  std::mt19937 engine(2);
  for (const std::size_t count : counts(engine)) {
    const std::vector<float> from = random_words(count, engine);
    std::uint32_t wanted = 0;
    for (std::size_t i = 0; i < count / 4 * 4; ++i) wanted ^= bits_of(from[i]);
    float got = 0;
    host_memory_probe().read(ConstView::of(from.data(), count), View::of(&got, 1), {});
    EXPECT_EQ(bits_of(got), wanted) << count;
  }
}

TEST(MemoryProbe, WritesEveryByteAndNoMore) {
  std::mt19937 engine(3);
  for (const std::size_t count : counts(engine)) {
    std::vector<float> to(count + 2, 7.0F);
    host_memory_probe().write(View::of(to.data() + 1, count), {});
    std::vector<float> wanted(count + 2, 0.0F);
    wanted.front() = wanted.back() = 7.0F;
    EXPECT_EQ(to, wanted);
  }
}

TEST(MemoryProbe, RefusesWhatItCannotReach) {
  float value = 0;
  const View device(&value, 1, Dtype::fp32, MemoryKind::device);
  const View host = View::of(&value, 1);
  EXPECT_THROW(host_memory_probe().copy(device, host, {}), std::invalid_argument);
  EXPECT_THROW(host_memory_probe().read(device, host, {}), std::invalid_argument);
  EXPECT_THROW(host_memory_probe().write(device, {}), std::invalid_argument);
  EXPECT_THROW(host_memory_probe().copy(host, View::of(&value, 0), {}), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp

// ctest: name=memory_ops labels=sanitize
// Clearing, copying and converting memory on the host.
#include "kernels/core/memory_ops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace zeropp {
namespace {

const MemoryOps& ops() { return host_memory_ops(); }

constexpr std::size_t kCounts[] = {0, 1, 255, 256, 1023, 1024, 1025, 5000};

TEST(Clear, TouchesExactlyItsRange) {
  for (const std::size_t count : kCounts) {
    std::vector<float> values(count + 2, 3.0F);
    ops().clear(View::of(values.data() + 1, count), {});
    std::vector<float> expected(count + 2, 0.0F);
    expected.front() = expected.back() = 3.0F;
    EXPECT_EQ(values, expected);
  }
}

TEST(Copy, GivesTheSameBytesAndNoMore) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const std::size_t count : kCounts) {
      const std::size_t bytes = count * size_of(dtype);
      std::vector<std::byte> source(bytes);
      // Patterns of NaN among them: a copy must not look at values.
      for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(255 - i % 251);
      std::vector<std::byte> destination(bytes + 1, std::byte{0xA5});
      ops().copy(ConstView(source.data(), count, dtype), View(destination.data(), count, dtype),
                 {});
      EXPECT_TRUE(std::equal(source.begin(), source.end(), destination.begin()));
      EXPECT_EQ(destination.back(), std::byte{0xA5});
    }
  }
}

TEST(Convert, CoversEveryPairOfTypes) {
  const std::vector<float> source{0.0F, -1.0F, 1.5F, 65504.0F, 1e30F, -3e38F};
  for (const Dtype first : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const Dtype second : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      std::vector<std::byte> one(source.size() * 4, std::byte{0xA5});
      std::vector<std::byte> two(source.size() * 4, std::byte{0xA5});
      std::vector<float> back(source.size(), NAN);
      const View in_first(one.data(), source.size(), first);
      const View in_second(two.data(), source.size(), second);
      ops().convert(ConstView::of(source.data(), source.size()), in_first, {});
      ops().convert(in_first, in_second, {});
      ops().convert(in_second, View::of(back.data(), back.size()), {});
      const bool narrow = first == Dtype::fp16 || second == Dtype::fp16;
      for (std::size_t i = 0; i < source.size(); ++i) {
        EXPECT_TRUE(std::isfinite(back[i]));
        const float limit = narrow ? 65504.0F : 3.4e38F;
        const float expected = std::clamp(source[i], -limit, limit);
        EXPECT_NEAR(back[i], expected, std::abs(expected) * 0.008F);
      }
    }
  }
}

TEST(Subtract, TakesWhatIsNotFiniteInACopyForZero) {
  const std::vector<float> values{1.5F, -2.0F, 3.0F, 4.0F, INFINITY, 1e30F};
  const std::vector<float> copies{0.5F, 2.0F, NAN, -INFINITY, 1.0F, -3e38F};
  const std::vector<float> expected{1.0F, -4.0F, 3.0F, 4.0F, INFINITY, 3e38F};
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    std::vector<std::byte> memory(copies.size() * 4);
    const View copy(memory.data(), copies.size(), dtype);
    ops().convert(ConstView::of(copies.data(), copies.size()), copy, {});
    std::vector<float> differences(values.size(), NAN);
    const auto view = ConstView::of(values.data(), values.size());
    ops().subtract(view, copy, View::of(differences.data(), differences.size()), {});
    for (std::size_t i = 0; i + 1 < values.size(); ++i) EXPECT_EQ(differences[i], expected[i]) << i;
    EXPECT_GE(differences.back(), 1e30F);
    ops().subtract(view, copy, copy, {});  // an element is read before it is written
    ops().convert(copy, View::of(differences.data(), differences.size()), {});
    for (std::size_t i = 0; i + 2 < values.size(); ++i) EXPECT_EQ(differences[i], expected[i]) << i;
    EXPECT_TRUE(std::isfinite(differences.back()));
  }
}

TEST(MemoryOps, RefuseWhatDoesNotFit) {
  std::vector<float> a(8, 1.0F);
  std::vector<float> b(8, 2.0F);
  const View whole = View::of(a.data(), 8);
  const View part = View::of(b.data(), 7);
  const View other_type(b.data(), 8, Dtype::bf16);
  const View on_device = View::of(b.data(), 8, MemoryKind::device);
  EXPECT_THROW(ops().copy(whole, part, {}), std::invalid_argument);
  EXPECT_THROW(ops().copy(whole, other_type, {}), std::invalid_argument);
  EXPECT_THROW(ops().convert(whole, part, {}), std::invalid_argument);
  EXPECT_THROW(ops().subtract(whole, whole, part, {}), std::invalid_argument);
  EXPECT_THROW(ops().subtract(whole, on_device, whole, {}), std::invalid_argument);
  EXPECT_THROW(ops().clear(on_device, {}), std::invalid_argument);
  EXPECT_THROW(ops().copy(whole, on_device, {}), std::invalid_argument);
  EXPECT_THROW(ops().copy(on_device, whole, {}), std::invalid_argument);
  EXPECT_THROW(ops().convert(on_device, whole, {}), std::invalid_argument);
  EXPECT_EQ(a, std::vector<float>(8, 1.0F));
  EXPECT_EQ(b, std::vector<float>(8, 2.0F));
  const View pinned = View::of(b.data(), 8, MemoryKind::pinned);
  ops().copy(whole, pinned, {});
  EXPECT_EQ(b, a);
}

}  // namespace
}  // namespace zeropp

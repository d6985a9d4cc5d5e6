// ctest: name=contract1_codec_integer_sums labels=sanitize
// Sums in integers beside the sums in fp32 that they stand for, at the limits of the range of
// scales; and the division by a constant beside the general one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/symmetric_int_sums.hpp"

namespace zeropp::test {
namespace {

using codec::BlockScales;
using codec::IntegerRange;

float scale_with(std::uint32_t exponent, std::uint32_t significand) {
  return float_of((exponent << 23U) | (significand << 16U));
}

bool all_in(const IntegerRange& range, const std::vector<float>& scales) {
  BlockScales seen;
  for (const float scale : scales) seen.see(scale);
  return seen.in(range);
}

class IntegerSums : public testing::Test {
 protected:
  using Format = codec::format::int4::Format;
  static constexpr int kMost = 1 << (Format::bits - 1);  ///< of a code's magnitude

  /// Adds one code an image both ways.
  static void compare(const IntegerRange& range, const std::vector<float>& scales,
                      const std::vector<int>& codes) {
    BlockScales seen;
    for (const float scale : scales) seen.see(scale);
    ASSERT_TRUE(seen.in(range));
    float expected = 0.0F;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < scales.size(); ++i) {
      expected = Format::accumulate(static_cast<Format::Code>(codes[i]), scales[i], expected);
      const std::uint32_t bits = codec::integer_of_scale(scales[i], seen.reciprocal_unit(range));
      const std::uint32_t factor = bits & 0xFFFFU;
      ASSERT_LT(factor, 0x8000U) << "scale " << scales[i];
      ASSERT_EQ(static_cast<float>(factor) * seen.unit(range), scales[i]);
      sum += static_cast<std::int64_t>(factor) * codes[i];
    }
    // A device keeps codes in the high bits of bytes.
    constexpr std::int64_t zeros = 1 << (8 - Format::bits);
    ASSERT_LE(std::abs(sum * zeros), std::numeric_limits<std::int32_t>::max());
    const float unit = seen.unit(range) * (1.0F / static_cast<float>(zeros));
    ASSERT_TRUE(std::isnormal(unit));
    const float got = static_cast<float>(static_cast<std::int32_t>(sum * zeros)) * unit;
    ASSERT_EQ(bits_of(got), bits_of(expected))
        << scales.size() << " images: " << got << ", in fp32 " << expected;
  }
};

TEST_F(IntegerSums, HaveTheBitsOfFp32AtEveryLimit) {
  std::mt19937 engine(1);
  for (const std::size_t images : {1U, 2U, 3U, 4U, 5U, 8U, 16U, 17U, 64U, 100U, 512U, 8192U}) {
    const IntegerRange range = IntegerRange::of(images);
    if (range.top == 0) continue;
    for (const std::uint32_t exponent : {20U, 21U, 110U, 127U, range.top >> 23U}) {
      SCOPED_TRACE(testing::Message() << images << " images, exponent " << exponent);
      const std::uint32_t low = exponent - range.spread;
      std::vector<float> scales(images, scale_with(exponent, 0x7F));
      for (const int code : {-kMost, kMost - 1, -1, 0, 1}) {
        compare(range, scales, std::vector<int>(images, code));
      }
      for (int round = 0; round < 20; ++round) {
        std::vector<int> codes;
        for (float& scale : scales) {
          const auto drawn = static_cast<std::uint32_t>(engine());
          scale = drawn % 16 == 0 ? 0.0F
                                  : scale_with(low + (drawn >> 8U) % (range.spread + 1),
                                               drawn % 3 == 0 ? 0x7FU : (drawn >> 16U) & 0x7FU);
          codes.push_back(static_cast<int>(engine() % (2U * kMost)) - kMost);
        }
        scales.front() = scale_with(exponent, 0x7F);
        scales.back() = images > 1 ? scale_with(low, 1) : scales.back();
        compare(range, scales, codes);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(IntegerSums, TakeNoOtherScales) {
  for (const std::size_t images : {1U, 2U, 4U, 16U, 17U, 64U}) {
    SCOPED_TRACE(testing::Message() << images << " images");
    const IntegerRange range = IntegerRange::of(images);
    const float one = 1.0F;
    EXPECT_TRUE(all_in(range, {one, scale_with(127 - range.spread, 0)}));
    EXPECT_FALSE(all_in(range, {one, scale_with(127 - range.spread - 1, 0x7F)}));
    EXPECT_TRUE(all_in(range, {float_of(range.top)}));
    EXPECT_FALSE(all_in(range, {float_of(range.top + 1)}));
    EXPECT_TRUE(all_in(range, {0.0F}));
    EXPECT_TRUE(all_in(range, {}));
    const float nan = float_of(kCanonicalNan32);
    const float infinite = std::numeric_limits<float>::infinity();
    for (const float other : {-one, -0.0F, nan, -nan, infinite, -infinite, 0x1p-126F, 0x1p-130F}) {
      EXPECT_FALSE(all_in(range, {other})) << other;
      EXPECT_FALSE(all_in(range, {one, other})) << other;
    }
  }
  EXPECT_EQ(IntegerRange::of(std::size_t{1} << 20U).top, 0U);
}

// The largest partial sum has to be without rounding in fp32, and below infinity.
TEST_F(IntegerSums, StayBelowTheRangeOfFp32) {
  for (std::size_t images = 1; images <= 70000; images = images * 5 / 4 + 1) {
    const IntegerRange range = IntegerRange::of(images);
    if (range.top == 0) continue;
    const double sum = static_cast<double>(images) * kMost;
    EXPECT_LE(sum * std::ldexp(255.0, static_cast<int>(range.spread)), 0x1p24) << images;
    EXPECT_LE(sum * static_cast<double>(float_of(range.top)), 0x1p127) << images;
  }
}

template <int kDivisor>
void divide_all() {
  for (std::uint64_t bits = 0; bits < 0x7F800000U; bits += bits < 0x1000000U ? 997 : 7919) {
    const float value = float_of(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(bits_of(codec::divide_by<kDivisor>(value)), bits_of(value / kDivisor))
        << std::hex << bits;
  }
  for (const float value : {kLargestFinite32, 0x1p-149F, 0x1p-126F, kDivisor * 0x1p-126F}) {
    ASSERT_EQ(bits_of(codec::divide_by<kDivisor>(value)), bits_of(value / kDivisor)) << value;
  }
}

TEST(DivideBy, RoundsAsTheDivisionDoes) {
  divide_all<1>();
  divide_all<3>();
  divide_all<7>();
  divide_all<15>();
  divide_all<127>();
}

}  // namespace
}  // namespace zeropp::test

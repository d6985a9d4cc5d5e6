// ctest: name=contract1_half_conversions labels=sanitize
// The 16-bit formats against arithmetic in fp64 and, for fp16, the compiler's own type.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/core/half.hpp"

namespace zeropp {
namespace {

/// The value of a finite or infinite pattern with `fraction` fraction bits and `exponent` exponent
/// bits, by its definition.
double value_of(unsigned pattern, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(pattern >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(pattern) & ((1 << fraction_bits) - 1);
  const double sign = (pattern & 0x8000U) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

struct Bf16Case {
  using Type = Bf16;
  static double value(unsigned pattern) { return value_of(pattern, 8, 7); }
  static Bf16 round(float x) { return round_to_bf16(x); }
  static constexpr unsigned infinity = 0x7F80U;
  static constexpr unsigned nan = kCanonicalNanBf16;
};
struct Fp16Case {
  using Type = Fp16;
  static double value(unsigned pattern) { return value_of(pattern, 5, 10); }
  static Fp16 round(float x) { return round_to_fp16(x); }
  static constexpr unsigned infinity = 0x7C00U;
  static constexpr unsigned nan = kCanonicalNanFp16;
};

template <class Case>
class Half : public testing::Test {};
using Cases = testing::Types<Bf16Case, Fp16Case>;
TYPED_TEST_SUITE(Half, Cases);

TYPED_TEST(Half, EveryPatternHasItsValueAndComesBack) {
  using Type = typename TypeParam::Type;
  for (unsigned pattern = 0; pattern < 65536; ++pattern) {
    const float wide = to_float(Type{static_cast<std::uint16_t>(pattern)});
    const double want = TypeParam::value(pattern);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide));
      ASSERT_EQ(TypeParam::round(wide).bits, TypeParam::nan);
      ASSERT_EQ(saturating_cast<Type>(wide).bits, TypeParam::nan);
      ASSERT_EQ(bits_of(saturating_cast<float>(wide)), kCanonicalNan32);
      continue;
    }
    ASSERT_EQ(double{wide}, want) << pattern;
    ASSERT_EQ(std::signbit(wide), (pattern & 0x8000U) != 0);
    ASSERT_EQ(TypeParam::round(wide).bits, pattern);
    ASSERT_EQ(saturating_cast<Type>(wide).bits, pattern);
  }
}

TYPED_TEST(Half, EveryIntervalRoundsAtItsMiddleToEven) {
  for (unsigned low = 0; low + 1 < TypeParam::infinity; ++low) {
    // Exact in fp32 for all but the deepest bf16 subnormals, where it is exact as well (2^-134).
    const auto middle = static_cast<float>((TypeParam::value(low) + TypeParam::value(low + 1)) / 2);
    const float inside_low = std::nextafter(middle, 0.0F);
    const float inside_high = std::nextafter(middle, std::numeric_limits<float>::max());
    for (const unsigned sign : {0U, 0x8000U}) {
      const auto signed_of = [&](float x) { return sign != 0 ? -x : x; };
      ASSERT_EQ(TypeParam::round(signed_of(inside_low)).bits, sign | low) << low;
      ASSERT_EQ(TypeParam::round(signed_of(middle)).bits, sign | (low + low % 2)) << low;
      ASSERT_EQ(TypeParam::round(signed_of(inside_high)).bits, sign | (low + 1)) << low;
    }
  }
}

TYPED_TEST(Half, TopOfTheRangeOverflowsOrSaturates) {
  using Type = typename TypeParam::Type;
  const unsigned largest = TypeParam::infinity - 1;
  const double step = TypeParam::value(largest) - TypeParam::value(largest - 1);
  const auto limit = static_cast<float>(TypeParam::value(largest) + step / 2);
  const float below = std::nextafter(limit, 0.0F);
  EXPECT_EQ(TypeParam::round(below).bits, largest);
  EXPECT_EQ(TypeParam::round(limit).bits, TypeParam::infinity);
  for (const float x : {below, limit, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(saturating_cast<Type>(x).bits, largest);
    EXPECT_EQ(saturating_cast<Type>(-x).bits, 0x8000U | largest);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(saturating_cast<Type>(infinity).bits, TypeParam::infinity);
  EXPECT_EQ(saturating_cast<Type>(-infinity).bits, 0x8000U | TypeParam::infinity);
}

TEST(Fp16, AgreesWithTheCompilersTypeOnRandomBits) {
#ifdef __FLT16_MAX__
  std::mt19937 engine(5);
  for (int i = 0; i < 2000000; ++i) {
    // Half of them inside the format's range.
    auto bits = static_cast<std::uint32_t>(engine());
    if (i % 2 == 0) bits = (bits & 0x8FFFFFFFU) | 0x30000000U;
    const float x = float_of(bits);
    const auto native = static_cast<_Float16>(x);
    if (std::isnan(x)) continue;
    ASSERT_EQ(round_to_fp16(x).bits, std::bit_cast<std::uint16_t>(native)) << x;
  }
#else
  GTEST_SKIP() << "this compiler has no _Float16";
#endif
}

TEST(Bf16, RoundsUpToTheSmallestThatIsNotUnder) {
  std::mt19937 engine(6);
  const double largest = Bf16Case::value(0x7F7FU);
  for (int i = 0; i < 1000000; ++i) {
    const float x = float_of(static_cast<std::uint32_t>(engine() % 0x7F800000U));
    const Bf16 up = round_up_to_bf16(x);
    ASSERT_LT(up.bits, 0x7F80U);
    if (double{x} > largest) {
      ASSERT_EQ(up.bits, 0x7F7FU);
      continue;
    }
    ASSERT_GE(Bf16Case::value(up.bits), double{x});
    if (up.bits > 0) {
      ASSERT_LT(Bf16Case::value(up.bits - 1U), double{x});
    }
  }
  EXPECT_EQ(round_up_to_bf16(0.0F).bits, 0U);
  EXPECT_EQ(round_up_to_bf16(1.0F).bits, 0x3F80U);
}

}  // namespace
}  // namespace zeropp

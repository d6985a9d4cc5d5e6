// ctest: name=contract1_codec_integer_words labels=sanitize
// SymmetricIntWords against SymmetricInt: every code in every place, every stored scale, and for
// every scale the largest and the smallest block that it is stored for.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"
#include "kernels/codec/symmetric_int.hpp"

namespace zeropp::test {
namespace {

template <class Format>
class IntegerWords : public testing::Test {
 protected:
  using WordMaths = codec::SymmetricIntWords<static_cast<int>(Format::bits)>;
  using WordValues = std::array<float, WordMaths::kCodes>;
  static constexpr int kCodes = 1 << Format::bits;
  static constexpr std::uint32_t kField = kCodes - 1;

  static typename Format::Code code_of(std::uint32_t field) {
    const int code = static_cast<int>(field);
    return static_cast<typename Format::Code>(code < kCodes / 2 ? code : code - kCodes);
  }
  static std::uint32_t word_by_value(const WordValues& values, float reciprocal) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto code = static_cast<std::uint32_t>(Format::encode(values[i], reciprocal));
      word |= (code & kField) << (i * Format::bits);
    }
    return word;
  }
  /// The largest finite fp32, as bits, whose scale is stored as at most `scale`.
  static std::uint32_t largest_with(std::uint16_t scale) {
    std::uint32_t low = 0;
    std::uint32_t high = 0x7F7FFFFFU;
    while (low < high) {
      const std::uint32_t middle = low + (high - low + 1) / 2;
      if (Format::scale_of(float_of(middle)).bits <= scale) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

using WordFormats = testing::Types<codec::format::int4::Format, codec::format::int8::Format>;
TYPED_TEST_SUITE(IntegerWords, WordFormats);

struct OtherDecode : codec::format::int4::Format {
  static float decode(Code /*code*/, float scale) { return scale; }
};

TYPED_TEST(IntegerWords, StandInForTheFormatAndForNoOther) {
  static_assert(codec::InSymmetricIntWords<TypeParam>);
  static_assert(!codec::InSymmetricIntWords<OtherDecode>);
}

TYPED_TEST(IntegerWords, GiveEveryCodeInEveryPlace) {
  using Maths = typename TestFixture::WordMaths;
  for (int i = 0; i < Maths::kCodes; ++i) {
    const auto shift = static_cast<unsigned>(i) * static_cast<unsigned>(TypeParam::bits);
    for (std::uint32_t field = 0; field <= TestFixture::kField; ++field) {
      for (const std::uint32_t others : {0U, ~0U, 0x5A93C6F1U}) {
        const std::uint32_t word = (others & ~(TestFixture::kField << shift)) | (field << shift);
        const auto expected = static_cast<float>(TestFixture::code_of(field));
        ASSERT_EQ(bits_of(Maths::value(word, i)), bits_of(expected)) << "place " << i;
      }
    }
  }
}

TYPED_TEST(IntegerWords, KnowTheScalesOfProductsThatSaturateNowhere) {
  using Maths = typename TestFixture::WordMaths;
  for (const int top : {15, 127}) {
    for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
      const float scale = to_float(Bf16{static_cast<std::uint16_t>(bits)});
      const double largest =
          std::ldexp(std::fabs(double{scale}), static_cast<int>(TypeParam::bits) - 1);
      ASSERT_EQ(Maths::products_reach_at_most(top, scale), largest <= std::ldexp(1.0, top))
          << std::hex << bits;
      if (!Maths::products_reach_at_most(top, scale)) continue;
      for (std::uint32_t field = 0; field <= TestFixture::kField; ++field) {
        const auto code = TestFixture::code_of(field);
        ASSERT_EQ(bits_of(codec::multiply(static_cast<float>(code), scale)),
                  bits_of(TypeParam::decode(code, scale)))
            << std::hex << bits;
      }
    }
  }
}

// Rounding is monotonic: where the largest magnitude stays within qmax without a clamp, all do.
TYPED_TEST(IntegerWords, EncodeTheExtremesOfEveryScale) {
  using Maths = typename TestFixture::WordMaths;
  using Values = typename TestFixture::WordValues;
  std::uint32_t smallest = 0;
  const std::uint32_t last = TypeParam::scale_of(kLargestFinite32).bits;
  for (std::uint32_t bits = 0; bits <= last; ++bits) {
    const Bf16 scale{static_cast<std::uint16_t>(bits)};
    const std::uint32_t largest = TestFixture::largest_with(scale.bits);
    if (largest < smallest) continue;  // flushed to zero
    ASSERT_EQ(TypeParam::scale_of(float_of(largest)).bits, bits);
    const float reciprocal = TypeParam::reciprocal(scale);
    for (const float most : {float_of(largest), float_of(smallest)}) {
      const float step = to_float(scale);
      for (const float base : {most, step * 0.5F, step * 1.5F, step * 2.5F, most / 3.0F, 0.0F}) {
        Values values{};
        for (std::size_t i = 0; i < values.size(); ++i) {
          const float part = base * (1.0F - 0.125F * static_cast<float>(i / 2));
          values[i] = i % 2 == 0 ? part : -part;
          if (std::fabs(values[i]) > most) values[i] = most;
        }
        ASSERT_EQ(Maths::encode(values.data(), reciprocal),
                  TestFixture::word_by_value(values, reciprocal))
            << std::hex << "scale " << bits << ", largest " << bits_of(most) << ", base "
            << bits_of(base);
      }
    }
    smallest = largest + 1;
  }
  EXPECT_EQ(smallest, 0x7F800000U) << "every finite magnitude belongs to a scale";
}

// All steps between two integers and all ties, in every place of a word.
TYPED_TEST(IntegerWords, RoundAsTheFormatDoes) {
  using Maths = typename TestFixture::WordMaths;
  using Values = typename TestFixture::WordValues;
  constexpr int qmax = TestFixture::kCodes / 2 - 1;
  for (const float reciprocal : {1.0F, 0.99999994F, 0x1.008p0F, 0x1.55p-3F}) {
    for (int i = -64 * qmax; i <= 64 * qmax; ++i) {
      Values values{};
      for (std::size_t k = 0; k < values.size(); ++k) {
        const int eighths = (i + static_cast<int>(k) * 37) % (64 * qmax + 1);
        values[k] = static_cast<float>(eighths) / 64.0F;
      }
      ASSERT_EQ(Maths::encode(values.data(), reciprocal),
                TestFixture::word_by_value(values, reciprocal))
          << i << " at " << reciprocal;
    }
  }
}

}  // namespace
}  // namespace zeropp::test

// ctest: name=contract1_codec_floats labels=sanitize
// Formats of small floating-point elements: every code against the value that its specification
// gives it, rounding between all neighbours, scales, saturation and blocks that are not finite.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Layout;

constexpr std::size_t kFloatBlock = 32;

/// From the OCP specifications of 8-bit floating point and of Microscaling: the widths, the largest
/// element, and codes with their values.
struct Element {
  const char* codec;
  int mantissa_bits;
  int least_exponent;  ///< of normal elements
  double largest;
  std::vector<std::pair<unsigned, double>> known;
  bool power_of_two;
};

void PrintTo(const Element& element, std::ostream* out) { *out << element.codec; }

std::vector<Element> formats() {
  const std::vector<std::pair<unsigned, double>> e4m3 = {
      {0x01, 0x1p-9}, {0x07, 0.875 * 0x1p-6}, {0x08, 0x1p-6}, {0x38, 1}, {0x7E, 448}};
  return {
      {"fp8e4m3:32", 3, -6, 448, e4m3, false},
      {"fp8e5m2:32",
       2,
       -14,
       57344,
       {{0x01, 0x1p-16}, {0x03, 0.75 * 0x1p-14}, {0x04, 0x1p-14}, {0x3C, 1}, {0x7B, 57344}},
       false},
      {"mxfp8", 3, -6, 448, e4m3, true},
      {"mxfp6", 3, 0, 7.5, {{0x01, 0.125}, {0x07, 0.875}, {0x08, 1}, {0x1F, 7.5}}, true},
      {"mxfp4", 1, 0, 6, {{1, 0.5}, {2, 1}, {3, 1.5}, {4, 2}, {5, 3}, {6, 4}, {7, 6}}, true},
  };
}

class SmallFloats : public testing::TestWithParam<Element> {
 protected:
  Element element_ = GetParam();
  Codec codec_{codec::parse_codec(element_.codec), Dtype::fp32};
  unsigned bits_ = static_cast<unsigned>(info_of(codec::parse_codec(element_.codec).format).bits);

  struct Block {
    std::vector<unsigned> codes;
    double scale;
    std::vector<float> back;
  };

  [[nodiscard]] Block through(std::vector<float> values) const {
    values.resize(kFloatBlock, 0.0F);
    const Wire wire = encoded(codec_, Values(values, Dtype::fp32));
    const std::vector<std::byte> image = wire.image();
    Block block{std::vector<unsigned>(kFloatBlock, 0U), 0, {}};
    // Bit by bit: planes of 8, 4 and 2 bits.
    std::size_t offset = 0;
    unsigned shift = 0;
    for (unsigned width = 8; width > 0; width /= 2) {
      if ((bits_ & width) == 0) continue;
      for (std::size_t i = 0; i < kFloatBlock; ++i) {
        for (unsigned k = 0; k < width; ++k) {
          const std::size_t bit = i * width + k;
          const auto byte = std::to_integer<unsigned>(image[offset + bit / 8]);
          block.codes[i] |= ((byte >> (bit % 8)) & 1U) << (shift + k);
        }
      }
      offset += kFloatBlock * width / 8;
      shift += width;
    }
    offset = (offset + 15) / 16 * 16;
    const auto low = std::to_integer<unsigned>(image[offset]);
    const auto high = std::to_integer<unsigned>(image[offset + 1]);
    block.scale = element_.power_of_two
                      ? (low == 255 ? std::nan("") : std::ldexp(1.0, static_cast<int>(low) - 127))
                      : double{to_float(Bf16{static_cast<std::uint16_t>(low | (high << 8U))})};
    const Values back = decoded(codec_, wire, kFloatBlock, Dtype::fp32);
    for (std::size_t i = 0; i < kFloatBlock; ++i) block.back.push_back(back[i]);
    return block;
  }

  /// The value of the magnitude `code`, by the definition of floating point.
  [[nodiscard]] double value_of(unsigned code) const {
    const auto mantissa = static_cast<double>(code % (1U << element_.mantissa_bits));
    const auto exponent = static_cast<int>(code >> element_.mantissa_bits);
    const double fraction = std::ldexp(mantissa, -element_.mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, element_.least_exponent)
                         : std::ldexp(1 + fraction, element_.least_exponent + exponent - 1);
  }
  [[nodiscard]] unsigned largest_code() const { return element_.known.back().first; }
  [[nodiscard]] unsigned sign() const { return 1U << (bits_ - 1U); }
};

TEST_P(SmallFloats, CodesAreThoseOfTheSpecification) {
  ASSERT_EQ(element_.known.back().second, element_.largest);
  for (const auto& [code, value] : element_.known) {
    ASSERT_EQ(value_of(code), value);
    const auto x = static_cast<float>(value);
    const auto largest = static_cast<float>(element_.largest);
    const Block block = through({x, -x, largest});
    EXPECT_EQ(block.scale, 1);
    EXPECT_EQ(block.codes[0], code);
    EXPECT_EQ(block.codes[1], code | sign());
    EXPECT_EQ(block.codes[2], largest_code());
    EXPECT_EQ(block.codes[3], 0U);
    EXPECT_EQ(block.back[0], x);
    EXPECT_EQ(block.back[1], -x);
  }
}

TEST_P(SmallFloats, RoundToTheNearestOfAllNeighboursTiesToEven) {
  const auto largest = static_cast<float>(element_.largest);
  for (unsigned code = 0; code < largest_code(); ++code) {
    const double middle = (value_of(code) + value_of(code + 1)) / 2;
    const auto tie = static_cast<float>(middle);
    const Block block =
        through({tie, std::nextafter(tie, 0.0F), std::nextafter(tie, 1e30F), -tie, largest});
    ASSERT_EQ(block.scale, 1);
    EXPECT_EQ(block.codes[0], code + code % 2);
    EXPECT_EQ(block.codes[1], code);
    EXPECT_EQ(block.codes[2], code + 1);
    EXPECT_EQ(block.codes[3], (code + code % 2) | sign());
  }
}

TEST_P(SmallFloats, ScalesFitTheLargestValue) {
  std::mt19937 engine(41);
  std::uniform_real_distribution<double> part(1.0, 2.0);
  const int most = std::ilogb(element_.largest);
  // Where a bf16 scale is normal; a power of two reaches lower, to 2^-127.
  for (int exponent = most - 126; exponent < 128; ++exponent) {
    const auto x = static_cast<float>(std::ldexp(part(engine) * (1 - 0x1p-20), exponent));
    const double largest = std::max(double{x}, std::ldexp(1.0, exponent));
    const Block block = through({static_cast<float>(largest), static_cast<float>(-largest / 3)});
    if (element_.power_of_two) {
      EXPECT_EQ(block.scale, std::ldexp(1.0, exponent - most));
    } else if (largest / element_.largest >= 0x1p-126) {
      EXPECT_GE(block.scale * element_.largest, largest);
      EXPECT_LT(block.scale * element_.largest, largest * (1 + 0x1p-7));
    }
  }
}

TEST_P(SmallFloats, SaturateAtTheLargestElement) {
  const auto beyond =
      static_cast<float>(std::ldexp(1.0, std::ilogb(element_.largest) + 1) * (1 - 0x1p-20));
  const Block block = through({beyond, -beyond});
  if (element_.power_of_two) {
    EXPECT_EQ(block.scale, 1) << "the scale follows the exponent alone";
    EXPECT_EQ(block.back[0], static_cast<float>(element_.largest));
  }
  EXPECT_EQ(block.codes[0], largest_code());
  EXPECT_EQ(block.codes[1], largest_code() | sign());
  constexpr float top = std::numeric_limits<float>::max();
  for (const float value : through({top, -top, top / 2}).back) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(SmallFloats, NonFiniteBlocksAreNanWithZeroPayload) {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    const Block block = through({1.0F, bad, -3.0F});
    EXPECT_TRUE(std::isnan(block.scale));
    EXPECT_EQ(block.codes, std::vector<unsigned>(kFloatBlock, 0U));
    for (const float value : block.back) EXPECT_EQ(bits_of(value), kCanonicalNan32);
  }
}

TEST_P(SmallFloats, TheSmallestBlocksAreZeroOrSubnormal) {
  const float least = std::numeric_limits<float>::denorm_min();
  const Block block = through({least, -least});
  EXPECT_EQ(block.scale, element_.power_of_two ? 0x1p-127 : 0.0);
  EXPECT_EQ(block.codes[0], 0U);
  EXPECT_EQ(block.back[0], 0.0F);
  if (element_.power_of_two) {
    const Block small = through({0x1p-127F, 0x1.8p-126F});
    EXPECT_EQ(small.scale, 0x1p-127);
    EXPECT_EQ(small.back[0], 0x1p-127F);
    EXPECT_EQ(small.back[1], 0x1.8p-126F);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloats, testing::ValuesIn(formats()),
                         [](const auto& element) {
                           return label_of(codec::parse_codec(element.param.codec));
                         });

}  // namespace
}  // namespace zeropp::test

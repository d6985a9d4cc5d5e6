// ctest: name=contract1_codec_nvfp4 labels=sanitize
// NVFP4 against its rule in fp64: bytes by hand, where the three scales lie, bounds that follow
// from what is stored, and blocks and images at the ends of the range.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;

constexpr std::size_t kNvfp4Block = 16;

/// The parts of an image.
struct Image {
  std::vector<unsigned> codes;
  std::vector<unsigned> scales;  ///< E4M3, by block
  float image_scale = 0;
  std::vector<std::byte> tail;  ///< after the image scale
  std::vector<float> back;

  /// The value of an E4M3 code, by the definition of floating point.
  [[nodiscard]] static double value_of(unsigned code) {
    if (code == 0x7F) return std::nan("");
    const double fraction = (code % 8) / 8.0;
    const int exponent = static_cast<int>(code / 8);
    return exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, exponent - 7);
  }
  /// The scale of the elements of `block`.
  [[nodiscard]] double scale(std::size_t block) const {
    return value_of(scales[block]) * image_scale;
  }
};

Image through(const std::vector<float>& values) {
  const Codec codec(codec::parse_codec("nvfp4"), Dtype::fp32);
  const std::size_t n = values.size();
  const std::size_t blocks = (n + kNvfp4Block - 1) / kNvfp4Block;
  const Wire wire = encoded(codec, Values(values, Dtype::fp32));
  const std::vector<std::byte> bytes = wire.image();
  Image image;
  for (std::size_t i = 0; i < blocks * kNvfp4Block; ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[i / 2]);
    image.codes.push_back(i % 2 == 0 ? byte & 15U : byte >> 4U);
  }
  const std::size_t scales = (blocks * kNvfp4Block / 2 + 15) / 16 * 16;
  for (std::size_t b = 0; b < blocks; ++b) {
    image.scales.push_back(std::to_integer<unsigned>(bytes[scales + b]));
  }
  const std::size_t end = scales + (blocks + 15) / 16 * 16;
  EXPECT_EQ(bytes.size(), end + 16);
  std::memcpy(&image.image_scale, bytes.data() + end, sizeof(float));
  image.tail.assign(bytes.begin() + static_cast<std::ptrdiff_t>(end) + 4, bytes.end());
  const Values back = decoded(codec, wire, n, Dtype::fp32);
  for (std::size_t i = 0; i < n; ++i) image.back.push_back(back[i]);
  return image;
}

TEST(Nvfp4, BytesByHand) {
  // Image scale 1: the largest value is 6 * 448. The third block is of the smallest scale, the
  // fourth of zeros, the fifth is cut.
  std::vector<float> values(4 * kNvfp4Block + 3, 0.0F);
  values[0] = 2688.0F;
  values[1] = -448.0F;
  const float ladder[] = {0.5F, 1, 1.5F, 2, 3, 4, 6, -0.5F, -6};
  std::copy(std::begin(ladder), std::end(ladder), values.begin() + kNvfp4Block);
  values[2 * kNvfp4Block + 5] = 0x6p-9F;
  values[2 * kNvfp4Block + 6] = -0x1p-9F;
  values[4 * kNvfp4Block] = 12.0F;
  const Image image = through(values);
  EXPECT_EQ(image.image_scale, 1.0F);
  EXPECT_EQ(image.tail, std::vector<std::byte>(12, std::byte{0}));
  EXPECT_EQ(image.scales, (std::vector<unsigned>{0x7E, 0x38, 0x01, 0x00, 0x40}));
  std::vector<unsigned> codes(5 * kNvfp4Block, 0U);
  codes[0] = 7;
  codes[1] = 8 + 2;
  const unsigned of_ladder[] = {1, 2, 3, 4, 5, 6, 7, 8 + 1, 8 + 7};
  std::copy(std::begin(of_ladder), std::end(of_ladder), codes.begin() + kNvfp4Block);
  codes[2 * kNvfp4Block + 5] = 7;
  codes[2 * kNvfp4Block + 6] = 8 + 2;
  codes[4 * kNvfp4Block] = 7;
  EXPECT_EQ(image.codes, codes);
  EXPECT_EQ(image.back, values);
}

TEST(Nvfp4, ScalesAndErrorsFollowFromTheLargestValues) {
  std::mt19937 engine(31);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> spread(-18, 3);
  std::uniform_int_distribution<int> exponent(-80, 110);
  for (int round = 0; round < 300; ++round) {
    const int unit = exponent(engine);
    std::vector<float> values(12 * kNvfp4Block);
    for (std::size_t b = 0; b < 12; ++b) {
      const int smaller = spread(engine);
      for (std::size_t i = 0; i < kNvfp4Block; ++i) {
        values[b * kNvfp4Block + i] =
            static_cast<float>(std::ldexp(normal(engine), unit + smaller));
      }
    }
    const Values given(values, Dtype::fp32);
    double largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(double{value}));
    const Image image = through(values);
    const double g = image.image_scale;
    ASSERT_NEAR(g, largest / 2688, largest / 2688 * 0x1p-23);
    for (std::size_t b = 0; b < 12; ++b) {
      const double wanted = double{block_absmax(given, kNvfp4Block, b * kNvfp4Block)} / 6;
      const double scale = image.scale(b);
      ASSERT_NEAR(scale, wanted, std::max(wanted * 0x1p-4, g * 0x1p-10) * (1 + 0x1p-18));
      for (std::size_t i = b * kNvfp4Block; i < (b + 1) * kNvfp4Block; ++i) {
        const double x = values[i];
        // Neighbouring elements are at most 2 apart up to 6.
        const double bound = std::max(std::fabs(x) - 6 * scale, scale) + std::fabs(x) * 0x1p-20;
        ASSERT_LE(std::fabs(x - image.back[i]), bound) << "block " << b << " scale " << scale;
      }
    }
  }
}

TEST(Nvfp4, ABlockThatIsNotFiniteTakesNoOtherWithIt) {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    std::vector<float> values(3 * kNvfp4Block, 0.0F);
    values[2] = 2688.0F;
    values[kNvfp4Block] = 1e30F;
    values[kNvfp4Block + 1] = bad;
    values[2 * kNvfp4Block] = 6.0F;
    const Image image = through(values);
    EXPECT_EQ(image.image_scale, 1.0F) << "of the finite blocks";
    EXPECT_EQ(image.scales, (std::vector<unsigned>{0x7E, 0x7F, 0x38}));
    for (std::size_t i = kNvfp4Block; i < 2 * kNvfp4Block; ++i) {
      EXPECT_EQ(image.codes[i], 0U);
      EXPECT_EQ(bits_of(image.back[i]), kCanonicalNan32);
    }
    EXPECT_EQ(image.back[2], 2688.0F);
    EXPECT_EQ(image.back[2 * kNvfp4Block], 6.0F);
  }
}

TEST(Nvfp4, EndsOfTheRange) {
  using Limits = std::numeric_limits<float>;
  for (const float value : through({Limits::max(), -Limits::max(), Limits::max() / 2}).back) {
    EXPECT_TRUE(std::isfinite(value));
  }
  for (const float small : {Limits::denorm_min(), Limits::min(), 2000 * Limits::min()}) {
    const Image image = through({small, -small});
    EXPECT_EQ(image.image_scale, 0.0F) << "it would be subnormal";
    EXPECT_EQ(image.scales.front(), 0U);
    EXPECT_EQ(image.back[0], 0.0F);
  }
  const Image least = through({2688 * Limits::min(), -448 * Limits::min()});
  EXPECT_EQ(least.image_scale, Limits::min());
  EXPECT_EQ(least.back, (std::vector<float>{2688 * Limits::min(), -448 * Limits::min()}));
}

}  // namespace
}  // namespace zeropp::test

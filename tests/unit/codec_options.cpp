// ctest: name=contract1_codec_options labels=sanitize
// The options of the integers against their rules in fp64: stored scale and minimum, levels, the
// bounds that follow from what is stored, and what each option is for.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Layout;

constexpr std::size_t kOptionBlock = 64;

class IntegerOptions : public testing::TestWithParam<int> {
 protected:
  int bits_ = GetParam();
  double levels_ = std::ldexp(1.0, bits_);

  [[nodiscard]] Codec bind(const std::string& options) const {
    return {codec::parse_codec("int" + std::to_string(bits_) + ":64+" + options), Dtype::fp32};
  }

  /// One block, what an image has for it, and what is decoded.
  struct Block {
    std::vector<float> values;
    std::vector<float> back;
    double scale = 0;
    double minimum = 0;

    [[nodiscard]] double largest() const {
      double most = 0;
      for (const float value : values) most = std::max(most, std::fabs(double{value}));
      return most;
    }
    [[nodiscard]] double error() const {
      double most = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        most = std::max(most, std::fabs(double{values[i]} - double{back[i]}));
      }
      return most;
    }
  };

  [[nodiscard]] Block through(const std::string& options, std::vector<float> values) const {
    const Codec codec = bind(options);
    values.resize(kOptionBlock, 0.0F);
    const Wire wire = encoded(codec, Values(values, Dtype::fp32));
    Block block{values, {}};
    const Values back = decoded(codec, wire, kOptionBlock, Dtype::fp32);
    for (std::size_t i = 0; i < kOptionBlock; ++i) block.back.push_back(back[i]);
    const std::vector<std::byte> image = wire.image();
    const std::size_t payload = (kOptionBlock * static_cast<unsigned>(bits_) / 8 + 15) / 16 * 16;
    const std::byte* const stored = image.data() + payload;
    if (options.find("s32") != std::string::npos) {
      float both[2];
      std::memcpy(both, stored, sizeof(both));
      block.scale = both[0];
      block.minimum = both[1];
    } else {
      Bf16 both[2];
      std::memcpy(both, stored, sizeof(both));
      block.scale = to_float(both[0]);
      block.minimum = to_float(both[1]);
    }
    return block;
  }

  /// Calls check(block) for random blocks of all magnitudes, around `offset` standard deviations.
  template <class Check>
  void for_random_blocks(const std::string& options, double offset, const Check& check) const {
    std::mt19937 engine(29);
    std::normal_distribution<double> normal(offset);
    std::uniform_int_distribution<int> exponent(-100, 110);
    for (int round = 0; round < 2000; ++round) {
      const double magnitude = std::ldexp(1.0, exponent(engine));
      std::vector<float> values(kOptionBlock);
      for (float& value : values) value = static_cast<float>(normal(engine) * magnitude);
      check(through(options, values));
      if (HasFatalFailure()) return;
    }
  }
};

double ulp(double x) { return std::ldexp(1.0, std::ilogb(x) - 23); }

TEST_P(IntegerOptions, WideUsesAllLevels) {
  double worst = 0;
  for_random_blocks("wide", 0, [&](const Block& block) {
    ASSERT_GE(block.scale * levels_ / 2, block.largest());
    ASSERT_LE(block.scale * levels_ / 2, block.largest() * (1 + 0x1p-7));
    ASSERT_LE(block.error(), block.scale * (1 + 0x1p-15));
    worst = std::max(worst, block.error() / block.scale);
  });
  EXPECT_GT(worst, 0.9) << "the largest positive value clips";
  const auto lowest = static_cast<float>(-levels_ / 2);
  EXPECT_EQ(through("wide", {lowest, 1.0F}).back[0], lowest);
  EXPECT_EQ(through("wide", {-lowest, 1.0F}).back[0], -lowest - 1) << "2^(b-1) has no code";
}

TEST_P(IntegerOptions, FullScalesAreCloser) {
  for_random_blocks("s32", 0, [&](const Block& block) {
    const double exact = block.largest() / (levels_ / 2 - 1);
    ASSERT_NEAR(block.scale, exact, exact * 0x1p-23);
    ASSERT_LE(block.error(), block.scale * (0.5 + 0x1p-15));
  });
}

TEST_P(IntegerOptions, AsymmetricLevelsReachFromMinimumToMaximum) {
  for (const char* const options : {"asym", "asym+s32"}) {
    const bool narrow = std::string(options) == "asym";
    for (const double offset : {0.0, 3.0, -50.0}) {
      for_random_blocks(options, offset, [&](const Block& block) {
        const auto [low, high] = std::ranges::minmax(block.values);
        ASSERT_LE(block.minimum, low);
        ASSERT_GE(block.minimum, low - (narrow ? std::fabs(low) * 0x1p-7 : 0));
        const double extent = high - block.minimum;
        const double slack = ulp(block.largest());
        ASSERT_GE(block.scale * (levels_ - 1), extent * (1 - 0x1p-22) - slack);
        ASSERT_LE(block.scale * (levels_ - 1),
                  (extent + slack) * (1 + (narrow ? 0x1p-7 : 0x1p-22)));
        // The difference x - m, the product and the sum may each round.
        ASSERT_LE(block.error(), block.scale * (0.5 + 0x1p-15) + 2.5 * slack);
      });
    }
  }
}

TEST_P(IntegerOptions, AnAsymmetricBlockOfOneValueIsItsMinimum) {
  const Block block = through("asym", std::vector<float>(kOptionBlock, 1.5F));
  EXPECT_EQ(block.scale, 0);
  EXPECT_EQ(block.back, block.values);
}

TEST_P(IntegerOptions, ARangeThatOverflowsIsNotFinite) {
  constexpr float largest = std::numeric_limits<float>::max();
  for (const char* const options : {"asym", "asym+s32"}) {
    for (const float value : through(options, {largest, -largest}).back) {
      EXPECT_EQ(bits_of(value), kCanonicalNan32);
    }
    for (const float value : through(options, {largest / 4, -largest / 4}).back) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
  for (const float value : through("had32", std::vector<float>(kOptionBlock, 0x1p120F)).back) {
    EXPECT_EQ(bits_of(value), kCanonicalNan32);
  }
}

TEST_P(IntegerOptions, RotatedBlocksKeepTheirBound) {
  for (const char* const options : {"had32", "had32+s32", "had32+wide"}) {
    const double steps = std::string(options) == "had32+wide" ? 1 : 0.5;
    for_random_blocks(options, 0, [&](const Block& block) {
      ASSERT_LE(block.error(), std::sqrt(32.0) * block.scale * (steps + 0x1p-15) +
                                   std::sqrt(32.0) * block.largest() * 0x1p-20);
    });
  }
}

/// With so many levels that values beside an outlier are not all lost.
class ManyLevels : public IntegerOptions {};

TEST_P(ManyLevels, ARotationSpreadsAnOutlier) {
  std::mt19937 engine(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(kOptionBlock);
  for (float& value : values) value = normal(engine);
  values[7] = 100;
  const auto squares = [](const Block& block) {
    double sum = 0;
    for (std::size_t i = 0; i < kOptionBlock; ++i) {
      sum += std::pow(double{block.values[i]} - double{block.back[i]}, 2);
    }
    return sum;
  };
  EXPECT_LT(squares(through("had32+s32", values)), 0.5 * squares(through("s32", values)));
}

TEST_P(IntegerOptions, RotatedSumsAreRotatedBackOnce) {
  // Equal codes of opposite signs, image by image.
  const Codec codec = bind("had32");
  constexpr std::size_t images = 16;
  Wire wire(codec, kOptionBlock, images);
  std::vector<double> exact(kOptionBlock, 0.0);
  std::vector<float> values = random_values(kOptionBlock, 77);
  for (float& value : values) value = std::remainder(value, 8.0F);
  for (std::size_t image = 0; image < images; ++image) {
    codec::WireImages one = wire.images();
    one.data += image * one.stride;
    codec.encode(ConstView::of(values.data(), kOptionBlock), Layout::contiguous(kOptionBlock), one,
                 {});
    std::vector<float> back(kOptionBlock);
    codec.decode(one, Layout::contiguous(kOptionBlock), View::of(back.data(), kOptionBlock), {});
    for (std::size_t i = 0; i < kOptionBlock; ++i) exact[i] += back[i];
    for (float& value : values) value = -value;
  }
  std::vector<float> sum(kOptionBlock, -1.0F);
  codec.decode_reduce(wire.images(), images, kOptionBlock, kOptionBlock, sum.data(), {});
  for (std::size_t i = 0; i < kOptionBlock; ++i) {
    EXPECT_EQ(sum[i], 0.0F);
    EXPECT_NEAR(exact[i], 0.0, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, IntegerOptions, testing::Range(2, 9));
INSTANTIATE_TEST_SUITE_P(Bits, ManyLevels, testing::Range(6, 9));

}  // namespace
}  // namespace zeropp::test

// ctest: name=contract1_codec_integers labels=sanitize
// The symmetric integers against their rule, written again in fp64 and value by value.
#include <gtest/gtest.h>

#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Layout;

constexpr std::size_t kIntegerBlock = 32;

struct Block {
  std::vector<int> q;
  std::uint16_t scale_bits;
  [[nodiscard]] float scale() const { return to_float(Bf16{scale_bits}); }
};

class Integers : public testing::TestWithParam<int> {
 protected:
  int bits_ = GetParam();
  int qmax_ = (1 << (bits_ - 1)) - 1;
  Codec codec_{{"int" + std::to_string(bits_), kIntegerBlock, {}}, Dtype::fp32};

  /// Encodes one block that begins with `values`, and takes its image apart.
  Block encode(std::vector<float> values) {
    values.resize(kIntegerBlock, 0.0F);
    Wire wire(codec_, kIntegerBlock);
    codec_.encode(ConstView::of(values.data(), kIntegerBlock), Layout::contiguous(kIntegerBlock),
                  wire.images(), {});
    const std::vector<std::byte> image = wire.image();
    Block block{{}, 0};
    for (std::size_t i = 0; i < kIntegerBlock; ++i) {
      const auto byte = std::to_integer<unsigned>(image[i * static_cast<unsigned>(bits_) / 8]);
      const unsigned code = bits_ == 8 ? byte : (i % 2 == 0 ? byte & 15U : byte >> 4U);
      block.q.push_back(static_cast<int>(code) -
                        (code > static_cast<unsigned>(qmax_) ? 1 << bits_ : 0));
    }
    std::memcpy(&block.scale_bits, image.data() + kIntegerBlock * static_cast<unsigned>(bits_) / 8,
                2);
    last_ = image;
    return block;
  }

  std::vector<float> decode_last() {
    std::vector<float> values(kIntegerBlock, -1.0F);
    const Wire wire = restored();
    codec_.decode(wire.images(), Layout::contiguous(kIntegerBlock),
                  View::of(values.data(), kIntegerBlock), {});
    return values;
  }

  std::vector<float> add_last(float start) {
    std::vector<float> values(kIntegerBlock, start);
    const Wire wire = restored();
    codec_.decode_add(wire.images(), kIntegerBlock, kIntegerBlock, values.data(), {});
    return values;
  }

 private:
  std::vector<std::byte> last_;
  [[nodiscard]] Wire restored() const {
    Wire wire(last_.size(), 1);
    std::copy(last_.begin(), last_.end(), wire.images().data);
    return wire;
  }
};

TEST_P(Integers, FollowTheRuleOnRandomBlocks) {
  std::mt19937 engine(17);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> exponent(-115, 120);
  for (int round = 0; round < 5000; ++round) {
    const double magnitude = std::ldexp(1.0, exponent(engine));
    std::vector<float> values(kIntegerBlock);
    double absmax = 0;
    for (float& value : values) {
      value = static_cast<float>(normal(engine) * magnitude);
      absmax = std::max(absmax, std::fabs(double{value}));
    }
    const Block block = encode(values);
    const double scale = block.scale();
    // The smallest bf16 that is not under absmax / qmax (qmax * scale is exact in fp64).
    const double below = to_float(Bf16{static_cast<std::uint16_t>(block.scale_bits - 1)});
    ASSERT_GE(scale * qmax_, absmax);
    ASSERT_LT(below * qmax_, absmax);
    const std::vector<float> decoded = decode_last();
    for (std::size_t i = 0; i < kIntegerBlock; ++i) {
      const float product = values[i] * (1.0F / block.scale());
      ASSERT_EQ(block.q[i], static_cast<int>(std::nearbyint(product)));
      ASSERT_LE(std::abs(block.q[i]), qmax_);
      ASSERT_EQ(double{decoded[i]}, block.q[i] * scale);
      ASSERT_LE(std::fabs(double{values[i]} - double{decoded[i]}), scale * (0.5 + 0x1p-15));
    }
  }
}

TEST_P(Integers, TiesGoToEven) {
  const auto qmax = static_cast<float>(qmax_);
  const Block block = encode({qmax, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F});
  EXPECT_EQ(block.scale(), 1.0F);
  EXPECT_EQ(std::vector<int>(block.q.begin(), block.q.begin() + 7),
            (std::vector<int>{qmax_, 0, 2, 2, 0, -2, -2}));
}

TEST_P(Integers, NonFiniteBlockIsCanonicalNanWithZeroPayload) {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::quiet_NaN(), -Limits::quiet_NaN(), float_of(0x7F800001U),
                          Limits::infinity(), -Limits::infinity()}) {
    const Block block = encode({1.0F, bad, -3.0F});
    EXPECT_EQ(block.scale_bits, 0x7FC0U);
    EXPECT_EQ(block.q, std::vector<int>(kIntegerBlock, 0));
    for (const float value : decode_last()) EXPECT_EQ(bits_of(value), 0x7FC00000U);
    for (const float value : add_last(2.0F)) EXPECT_EQ(bits_of(value), 0x7FC00000U);
  }
}

TEST_P(Integers, ZeroAndFlushedBlocksAreZero) {
  const auto qmax = static_cast<float>(qmax_);
  constexpr float tiny = std::numeric_limits<float>::min();
  for (const float largest :
       {0.0F, -0.0F, std::numeric_limits<float>::denorm_min(), tiny, qmax * tiny * 0.992F}) {
    const Block block = encode({largest, -largest / 2});
    EXPECT_EQ(block.scale_bits, 0U);
    EXPECT_EQ(block.q, std::vector<int>(kIntegerBlock, 0));
    for (const float value : decode_last()) EXPECT_EQ(bits_of(value), 0U);
    for (const float value : add_last(2.0F)) EXPECT_EQ(value, 2.0F);
  }
  EXPECT_EQ(encode({qmax * tiny}).scale_bits, 0x0080U) << "the smallest normal scale is kept";
}

TEST_P(Integers, LargestFiniteBlockStaysFinite) {
  constexpr float largest = std::numeric_limits<float>::max();
  const Block block = encode({largest, -largest, largest / 2, 0.0F});
  const double product = block.q[0] * double{block.scale()};
  if (bits_ == 4) {
    EXPECT_GT(product, largest) << "the case that must saturate";
  }
  const std::vector<float> decoded = decode_last();
  EXPECT_EQ(decoded[0], static_cast<float>(std::min(product, double{largest})));
  EXPECT_EQ(decoded[1], -decoded[0]);
  EXPECT_EQ(decoded[3], 0.0F);
  // Sums follow fma(q, s, acc): one rounding at the end, no saturation in between.
  EXPECT_EQ(add_last(-largest)[0], static_cast<float>(product - double{largest}));
}

TEST_P(Integers, DeclareTheBoundOfTheirRule) {
  const std::string name = "int" + std::to_string(bits_);
  const codec::FormatInfo& info = info_of(name);
  const auto qmax = static_cast<float>(qmax_);
  EXPECT_EQ(info.bits, static_cast<std::size_t>(bits_));
  EXPECT_EQ(info.scale_bytes, 2U);
  EXPECT_EQ(info.minimum_block, 32U);
  EXPECT_EQ(info.maximum_block, 8192U);
  EXPECT_EQ(info.error_bound(0.3F, qmax), 0.5 + 0x1p-15);
  EXPECT_EQ(info.error_bound(0.0F, 0.0F), qmax_ * 0x1p-126);
}

INSTANTIATE_TEST_SUITE_P(Bits, Integers, testing::Values(8, 4));

}  // namespace
}  // namespace zeropp::test

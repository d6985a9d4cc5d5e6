// ctest: name=optim labels=sanitize
// The kernels around an optimizer's step against plain loops in double precision and closed forms.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "kernels/optim/optim_ops.hpp"

namespace zeropp::optim {
namespace {

const OptimOps& ops() { return host_optim_ops(); }

std::vector<float> random_values(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(engine);
  return values;
}

double sum_of_squares(const std::vector<float>& values, float factor = 1.0F,
                      std::size_t length = kNormPiece) {
  std::vector<double> scratch(norm_scratch(values.size()), -1.0);
  std::vector<NormPiece> pieces;
  for_each_piece(values.size(), length, [&](std::size_t first, std::size_t n) {
    pieces.push_back({values.data() + first, scratch.data() + norm_blocks(first),
                      static_cast<std::uint32_t>(n)});
  });
  double sum = -1;
  const NormArray array{scratch.data(), norm_blocks(values.size()), &sum};
  ops().sum_of_squares(factor, pieces, {&array, 1}, {});
  return sum;
}

/// In the documented order, written out level by level.
double reference_sum(const std::vector<float>& values) {
  std::vector<double> terms;
  for (const float value : values) terms.push_back(static_cast<double>(value) * value);
  do {
    std::vector<double> blocks;
    for (std::size_t begin = 0; begin < terms.size(); begin += 1024) {
      double lanes[32] = {};
      for (std::size_t i = begin; i < std::min(begin + 1024, terms.size()); ++i) {
        lanes[(i - begin) % 32] += terms[i];
      }
      for (int half = 16; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
      }
      blocks.push_back(lanes[0]);
    }
    terms = blocks;
  } while (terms.size() > 1);
  return terms.empty() ? 0.0 : terms[0];
}

TEST(SumOfSquares, MatchesALongDoubleSumAndTheDocumentedOrder) {
  for (const std::size_t n : {0U, 1U, 32U, 33U, 1023U, 1024U, 1025U, 5000U, 1024U * 1024U,
                              1024U * 1024U + 1U, 3U * 1024U * 1024U}) {
    const std::vector<float> values = random_values(n, 7);
    const double sum = sum_of_squares(values);
    EXPECT_EQ(sum, reference_sum(values)) << n;
    EXPECT_EQ(sum, sum_of_squares(values, 1.0F, kNormBlock)) << n << ": cut into other pieces";
    long double exact = 0;
    for (const float value : values) exact += static_cast<long double>(value) * value;
    EXPECT_NEAR(sum, static_cast<double>(exact), 1e-12 * (1 + static_cast<double>(exact)));
  }
}

/// The factor gives the sum of values that were multiplied before, in fp32.
TEST(SumOfSquares, RoundsTheScaledValues) {
  const std::vector<float> values = random_values(50'257, 8);
  std::vector<float> scaled = values;
  for (float& value : scaled) value *= 1.0F / 3.0F;
  EXPECT_EQ(sum_of_squares(values, 1.0F / 3.0F), reference_sum(scaled));
  EXPECT_NE(sum_of_squares(values, 1.0F / 3.0F), sum_of_squares(values) / 9.0);
}

TEST(SumOfSquares, CarriesNonFiniteValues) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(3000, 1.0F);
    values[2077] = bad;
    EXPECT_FALSE(std::isfinite(sum_of_squares(values)));
  }
  std::vector<float> largest(3000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(sum_of_squares(largest)))
      << "finite gradients never make a non-finite norm";
}

TEST(Initialize, GivesTheSameValuesWhateverTheShardBoundaries) {
  constexpr std::size_t kCount = 5000;
  std::vector<float> whole(kCount, NAN);
  ops().initialize(5, 3, 0, kCount, 0.25F, 0.02F, whole.data(), {});
  std::vector<float> parts(kCount, NAN);
  for (std::size_t begin = 0; begin < kCount; begin += 777) {
    const std::size_t n = std::min<std::size_t>(777, kCount - begin);
    ops().initialize(5, 3, begin, n, 0.25F, 0.02F, parts.data() + begin, {});
  }
  EXPECT_EQ(whole, parts);
  std::vector<float> other(kCount, NAN);
  ops().initialize(5, 4, 0, kCount, 0.25F, 0.02F, other.data(), {});
  EXPECT_NE(whole, other);
}

TEST(StandardNormal, HasTheMomentsOfANormalDistribution) {
  double mean = 0;
  double variance = 0;
  double fourth = 0;
  constexpr int kDraws = 400'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = standard_normal(11, 0, static_cast<std::uint64_t>(i));
    mean += x / kDraws;
    variance += x * x / kDraws;
    fourth += x * x * x * x / kDraws;
  }
  EXPECT_NEAR(mean, 0.0, 0.008);
  EXPECT_NEAR(variance, 1.0, 0.01);
  EXPECT_NEAR(fourth, 2.9, 0.05) << "twelve uniforms: kurtosis 3 - 1.2 / 12";
}

TEST(Philox, AgreesWithThePublishedTestVectors) {
  const Random4 zeros = philox4x32(0, 0, 0);
  EXPECT_EQ(zeros.word[0], 0x6627e8d5U);
  EXPECT_EQ(zeros.word[1], 0xe169c58dU);
  EXPECT_EQ(zeros.word[2], 0xbc57ac4cU);
  EXPECT_EQ(zeros.word[3], 0x9b00dbd8U);
  const Random4 ones = philox4x32(~0ULL, ~0ULL, ~0ULL);
  EXPECT_EQ(ones.word[0], 0x408f276dU);
  EXPECT_EQ(ones.word[1], 0x41c83b0eU);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6U);
  EXPECT_EQ(ones.word[3], 0x6d5451fdU);
}

TEST(Add, TouchesExactlyItsRange) {
  std::vector<float> values(2050, 3.0F);
  const std::vector<float> ones(2048, 1.0F);
  ops().add(2048, ones.data(), values.data() + 1, {});
  EXPECT_EQ(values.front(), 3.0F);
  EXPECT_EQ(values.back(), 3.0F);
  for (std::size_t i = 1; i <= 2048; ++i) ASSERT_EQ(values[i], 4.0F);
}

}  // namespace
}  // namespace zeropp::optim

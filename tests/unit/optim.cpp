// ctest: name=optim labels=sanitize
// The optimizer's kernels against plain loops in double precision and closed forms.
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

/// Weights with their moments: what AdamW changes.
struct Parameters {
  explicit Parameters(std::vector<float> weights)
      : weight(std::move(weights)), m(weight.size(), 0.0F), v(weight.size(), 0.0F) {}

  /// One step on [first, first + n) as one piece.
  void step(const AdamWConstants& c, bool decay, std::size_t first, std::size_t n,
            const std::vector<float>& gradient, View shard = {}) {
    const AdamWPiece piece{gradient.data() + first,
                           weight.data() + first,
                           m.data() + first,
                           v.data() + first,
                           shard.part(first, n).data,
                           static_cast<std::uint32_t>(n),
                           decay};
    ops().adamw(c, shard.dtype, {&piece, 1}, {});
  }

  std::vector<float> weight;
  std::vector<float> m;
  std::vector<float> v;
};

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

TEST(AdamW, FollowsTheFormulaInDoublePrecisionForManySteps) {
  const AdamWOptions options{
      .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1};
  for (const std::size_t n : {1U, 31U, 1024U, 2500U}) {
    Parameters parameters(random_values(n, 1));
    std::vector<double> w64(parameters.weight.begin(), parameters.weight.end());
    std::vector<double> m64(n, 0.0);
    std::vector<double> v64(n, 0.0);
    for (std::uint64_t t = 1; t <= 20; ++t) {
      const std::vector<float> gradient = random_values(n, 100 + static_cast<unsigned>(t));
      const double clip = t % 2 == 0 ? 0.5 : 1.0;
      const float mean = t % 3 == 0 ? 0.125F : 1.0F;
      parameters.step(adamw_constants(options, t, mean, clip), true, 0, n, gradient);
      for (std::size_t i = 0; i < n; ++i) {
        const double g = gradient[i] * static_cast<double>(mean) * clip;
        m64[i] = options.beta1 * m64[i] + (1 - options.beta1) * g;
        v64[i] = options.beta2 * v64[i] + (1 - options.beta2) * g * g;
        const double m_hat = m64[i] / (1 - std::pow(options.beta1, static_cast<double>(t)));
        const double v_hat = v64[i] / (1 - std::pow(options.beta2, static_cast<double>(t)));
        w64[i] -= options.learning_rate * options.weight_decay * w64[i];
        w64[i] -= options.learning_rate * m_hat / (std::sqrt(v_hat) + options.epsilon);
      }
    }
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(parameters.weight[i], w64[i], 2e-5) << i;
  }
}

TEST(AdamW, CutsTheSixteenBitShardFromTheNewWeights) {
  constexpr std::size_t kCount = 2500;
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    Parameters parameters(random_values(kCount, 1));
    parameters.weight[7] = 3e38F;
    const std::vector<float> gradient = random_values(kCount, 2);
    std::vector<std::uint16_t> shard(kCount, 0xA5A5);
    parameters.step(adamw_constants({}, 1, 1.0F, 1.0), true, 0, kCount, gradient,
                    {shard.data(), kCount, dtype});
    for (std::size_t i = 0; i < kCount; ++i) {
      const float weight = parameters.weight[i];
      ASSERT_EQ(shard[i], dtype == Dtype::bf16 ? saturating_cast<Bf16>(weight).bits
                                               : saturating_cast<Fp16>(weight).bits)
          << i;
    }
  }
}

TEST(AdamW, LeavesUndecayedWeightsAloneWithoutGradient) {
  Parameters parameters({1.5F, -2.0F});
  const std::vector<float> zeros(2, 0.0F);
  const AdamWOptions options{.weight_decay = 0.5};
  parameters.step(adamw_constants(options, 1, 1.0F, 1.0), false, 0, 2, zeros);
  EXPECT_EQ(parameters.weight, (std::vector<float>{1.5F, -2.0F}));
  parameters.step(adamw_constants(options, 2, 1.0F, 1.0), true, 0, 2, zeros);
  EXPECT_FLOAT_EQ(parameters.weight[0], static_cast<float>(1.5 * (1 - 1e-3 * 0.5)));
}

/// The factor of the mean gives the bits that gradients have which were multiplied before.
TEST(AdamW, RoundsTheMeanBeforeItClips) {
  constexpr std::size_t kCount = 5000;
  const float mean = 1.0F / 3.0F;
  Parameters folded(random_values(kCount, 1));
  Parameters apart(folded.weight);
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> sum = random_values(kCount, 10 + static_cast<unsigned>(t));
    std::vector<float> gradient = sum;
    for (float& value : gradient) value *= mean;
    folded.step(adamw_constants({}, t, mean, 0.7), true, 0, kCount, sum);
    apart.step(adamw_constants({}, t, 1.0F, 0.7), true, 0, kCount, gradient);
  }
  EXPECT_EQ(folded.weight, apart.weight);
  EXPECT_EQ(folded.m, apart.m);
  EXPECT_EQ(folded.v, apart.v);
}

/// Many pieces of one call, of any lengths, give what a call for each gives, and nothing beside.
TEST(AdamW, TakesPiecesOfAnyLengthAtOnce) {
  constexpr std::size_t kCount = 20'000;
  const AdamWConstants c = adamw_constants({.weight_decay = 0.1}, 1, 0.25F, 0.9);
  const std::vector<float> gradient = random_values(kCount, 2);
  std::mt19937 random(3);
  Parameters together(random_values(kCount, 1));
  Parameters apart(together.weight);
  std::vector<AdamWPiece> pieces;
  for (std::size_t first = 0; first < kCount;) {
    const std::size_t n =
        std::min<std::size_t>(random() % 3 == 0 ? 0 : random() % 5000, kCount - first);
    const bool decay = random() % 2 == 0;
    pieces.push_back({gradient.data() + first, together.weight.data() + first,
                      together.m.data() + first, together.v.data() + first, nullptr,
                      static_cast<std::uint32_t>(n), decay});
    apart.step(c, decay, first, n, gradient);
    first += n + random() % 7;  // a gap that stays as it was
  }
  ops().adamw(c, Dtype::fp32, pieces, {});
  EXPECT_EQ(together.weight, apart.weight);
  EXPECT_EQ(together.m, apart.m);
  EXPECT_EQ(together.v, apart.v);
  ops().adamw(c, Dtype::fp32, {}, {});
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

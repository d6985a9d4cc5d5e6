// ctest: name=zero_gradient_norm labels=sanitize
// The squared norm by canonical shard: in the order of the units, the same bits whether one part
// holds all shards or each has its own, and the norm of the mean.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "lib/zero/optimizer/gradient_norm.hpp"

namespace zeropp::zero {
namespace {

constexpr std::size_t kShards = 3;
constexpr float kMean = 1.0F / 7.0F;

/// Units of one value, of a ragged block, of more than one piece.
const std::vector<std::size_t> kShardSizes{1, 1025, 50'257, 2 * optim::kNormPiece};

struct Gradients {
  Gradients() {
    for (const std::size_t shard : kShardSizes) {
      const std::size_t n = kShards * shard;
      partitions.push_back(
          {.parameters = n, .flat = n, .shard = shard, .padded = n, .canonical = shard});
      values.emplace_back(n);
      for (std::size_t i = 0; i < n; ++i) values.back()[i] = standard_normal(3, values.size(), i);
    }
  }
  /// `count` shards from `first` on.
  [[nodiscard]] std::vector<double> squares(std::size_t first, std::size_t count) {
    std::vector<View> views;
    for (std::size_t u = 0; u < values.size(); ++u) {
      const std::size_t n = kShardSizes[u];
      views.push_back(View::of(values[u].data() + first * n, count * n));
    }
    const GradientNorm norm(views, partitions, Device::host());
    norm.start(kMean, Stream());
    norm.fetch(Stream());
    return norm.squares();
  }

  std::vector<UnitPartition> partitions;
  std::vector<std::vector<float>> values;  ///< by unit
};

TEST(GradientNorm, IsTheSameWhoeverHoldsTheShards) {
  Gradients gradients;
  const std::vector<double> together = gradients.squares(0, kShards);
  ASSERT_EQ(together.size(), kShards);
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    EXPECT_EQ(gradients.squares(shard, 1), std::vector<double>{together[shard]}) << shard;
    double expected = 0;
    for (std::size_t u = 0; u < kShardSizes.size(); ++u) {
      for (std::size_t i = 0; i < kShardSizes[u]; ++i) {
        const double g = static_cast<double>(gradients.values[u][shard * kShardSizes[u] + i]) / 7.0;
        expected += g * g;
      }
    }
    EXPECT_NEAR(together[shard] / expected, 1.0, 1e-6) << shard;
  }
}

TEST(GradientNorm, OfWhatIsNotFiniteIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::size_t u = 0; u < kShardSizes.size(); ++u) {
      Gradients gradients;
      gradients.values[u][2 * kShardSizes[u]] = bad;  // the first value of the last shard
      const std::vector<double> squares = gradients.squares(0, kShards);
      EXPECT_TRUE(std::isfinite(squares[0]) && std::isfinite(squares[1])) << "unit " << u;
      EXPECT_FALSE(std::isfinite(squares[2])) << "unit " << u;
    }
  }
}

/// The arrays may change between two norms, not move.
TEST(GradientNorm, ReadsWhatTheArraysHoldNow) {
  Gradients gradients;
  std::vector<View> views;
  for (auto& unit : gradients.values) views.push_back(View::of(unit.data(), unit.size()));
  const GradientNorm norm(views, gradients.partitions, Device::host());
  norm.start(kMean, Stream());
  norm.fetch(Stream());
  const std::vector<double> before = norm.squares();
  EXPECT_EQ(before, gradients.squares(0, kShards));
  for (auto& unit : gradients.values) {
    for (float& value : unit) value *= 2.0F;
  }
  norm.start(kMean, Stream());
  norm.fetch(Stream());
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    EXPECT_EQ(norm.squares()[shard], 4.0 * before[shard]);
  }
}

/// Unit by unit, in any order: the same bits as all at once.
TEST(GradientNorm, OfOneUnitAfterAnother) {
  Gradients gradients;
  std::vector<View> views;
  for (auto& unit : gradients.values) views.push_back(View::of(unit.data(), unit.size()));
  const GradientNorm norm(views, gradients.partitions, Device::host());
  for (std::size_t unit = gradients.values.size(); unit-- > 0;) norm.start(unit, kMean, {});
  norm.fetch(Stream());
  EXPECT_EQ(norm.squares(), gradients.squares(0, kShards));
}

}  // namespace
}  // namespace zeropp::zero

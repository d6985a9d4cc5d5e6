// ctest: name=base_statistics timeout=60 labels=sanitize
// Medians with their intervals: the numbers, how often an interval holds the median, and when it is
// narrow enough to stop.
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lib/base/statistics.hpp"

namespace zeropp {
namespace {

// The numbers are those that validation's sample_statistics.py gives.
TEST(Statistics, AsTheRulesSay) {
  const Summary s = summarize({5, 1, 4, 2, 3, 9, 7, 8, 6, 10, 30, 12});
  EXPECT_DOUBLE_EQ(s.median, 6.5);
  EXPECT_DOUBLE_EQ(s.low, 3);
  EXPECT_DOUBLE_EQ(s.high, 10);
  EXPECT_NEAR(s.p95, 20.1, 1e-12);
  EXPECT_NEAR(s.variation, 0.9472507755234486, 1e-15);
  const Summary one = summarize({4});
  EXPECT_EQ(one.low, 4);
  EXPECT_EQ(one.high, 4);
  EXPECT_EQ(one.variation, 0);
  EXPECT_THROW((void)summarize({}), std::invalid_argument);
  EXPECT_DOUBLE_EQ(median({5, 1, 4, 2}), 3);
  EXPECT_DOUBLE_EQ(median({7, 1, 4}), 4);
  EXPECT_THROW((void)median({}), std::invalid_argument);
}

TEST(Statistics, RankOfTheInterval) {
  for (const auto& [count, rank] :
       {std::pair{5, 1}, {6, 1}, {9, 2}, {20, 6}, {51, 19}, {100, 40}}) {
    std::vector<double> samples(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<double>(i + 1);
    const Summary s = summarize(samples);
    EXPECT_EQ(s.low, rank) << count;
    EXPECT_EQ(s.high, count - rank + 1) << count;
  }
}

TEST(Statistics, IntervalHoldsTheMedianAsOftenAsItSays) {
  std::mt19937_64 engine(20);
  std::lognormal_distribution<double> skewed(0, 1);
  int inside = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> samples(20);
    for (double& sample : samples) sample = skewed(engine);
    const Summary s = summarize(samples);
    if (s.low <= 1 && 1 <= s.high) ++inside;
  }
  EXPECT_GE(inside, kTrials * 95 / 100);
}

TEST(Statistics, StopsWhenNarrowAndNotBefore) {
  const std::vector<double> equal(5, 1.0);
  EXPECT_FALSE(is_within(summarize(equal), 5, 0.01));  // 5 samples have no interval
  std::vector<double> samples(40, 1.0);
  EXPECT_TRUE(is_within(summarize(samples), 40, 0.01));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = i % 2 == 0 ? 0.9 : 1.1;
  EXPECT_FALSE(is_within(summarize(samples), 40, 0.01));
}

}  // namespace
}  // namespace zeropp

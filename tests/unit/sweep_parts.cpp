// ctest: name=sweep_parts timeout=60 labels=sanitize link=zeropp_app_sweep
// The parts of zpp_sweep that need no ranks: sizes, data, the comparison of a result with what
// it has to be, and numbers in columns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "apps/sweep/comparison.hpp"
#include "apps/sweep/data.hpp"
#include "apps/sweep/outputs.hpp"
#include "lib/base/text.hpp"
#include "lib/device/workers.hpp"

namespace zeropp::sweep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Sizes, FactorOrStep) {
  EXPECT_THAT(sizes(1024, 65536, 1, 4), ElementsAre(1024, 4096, 16384, 65536));
  EXPECT_THAT(sizes(1024, 65535, 1, 4), ElementsAre(1024, 4096, 16384));
  EXPECT_THAT(sizes(8, 20, 4, 1), ElementsAre(8, 12, 16, 20));
  EXPECT_THAT(sizes(8, 8, 4, 1), ElementsAre(8));
  EXPECT_THAT(sizes(0, 8, 4, 1), ElementsAre(0, 4, 8));
}

TEST(Sizes, EndAtTheLargestNumber) {
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  EXPECT_THAT(sizes(most / 2, most, 1, 4), ElementsAre(most / 2));
  EXPECT_THAT(sizes(most - 5, most, 4, 1), ElementsAre(most - 5, most - 1));
}

TEST(Sizes, PartsAreMultiplesOf16Bytes) {
  EXPECT_EQ(elements_of_part(1024, 4, 4), 64U);
  EXPECT_EQ(elements_of_part(1000, 4, 3), 80U);
  EXPECT_EQ(elements_of_part(1000, 2, 3), 160U);
  EXPECT_EQ(elements_of_part(8, 4, 4), 0U);
}

TEST(Data, IntegersWhoseSumIsExact) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    constexpr int kRanks = 7;
    const Data data(Data::Kind::integers, 3, dtype, kRanks);
    std::vector<double> sum(1000, 0.0);
    std::vector<float> running(1000, 0.0F);
    std::set<float> distinct;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<float> values(1000);
      data.values(rank, 5, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        distinct.insert(values[i]);
        sum[i] += values[i];
        with_type(dtype, [&]<class T>(T*) {
          running[i] = to_float(saturating_cast<T>(running[i] + values[i]));
        });
        ASSERT_EQ(values[i], std::round(values[i]));
        ASSERT_EQ(running[i], sum[i]) << name_of(dtype);
      }
    }
    EXPECT_GT(distinct.size(), 50U);
  }
}

TEST(Data, NormalDrawsDependOnRankAndElementOnly) {
  const Data data(Data::Kind::normal, 3, Dtype::fp32, 4);
  std::vector<float> all(1 << 16);
  std::vector<float> part(100);
  std::vector<float> other(1 << 16);
  data.values(2, 0, all);
  data.values(2, 1000, part);
  data.values(1, 0, other);
  double mean = 0;
  double square = 0;
  double product = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    mean += all[i] / static_cast<double>(all.size());
    square += all[i] * all[i] / static_cast<double>(all.size());
    product += all[i] * other[i] / static_cast<double>(all.size());
  }
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], all[1000 + i]);
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 1, 0.02);
  EXPECT_NEAR(product, 0, 0.02);
}

TEST(Data, PlantsInEveryPart) {
  const Data data = Data(Data::Kind::normal, 3, Dtype::fp32, 4)
                        .with({.rank = 1, .stride = 10, .nan_at = 3, .infinity_at = 7});
  std::vector<float> values(20);
  data.values(1, 5, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t place = (5 + i) % 10;
    EXPECT_EQ(std::isnan(values[i]), place == 3) << i;
    EXPECT_EQ(std::isinf(values[i]), place == 7) << i;
  }
  data.values(2, 5, values);
  for (const float value : values) EXPECT_TRUE(std::isfinite(value));
}

/// Expected values, a right result, and what spoils it.
class Compared : public testing::Test {
 protected:
  Compared() : got_(kCount) {
    Data(Data::Kind::normal, 5, Dtype::fp32, 1).values(0, 0, got_);
    expected_.values.assign(got_.begin(), got_.end());
  }
  void allow(double bound) { expected_.bound.assign(kCount, bound); }
  Comparison compare(double sign = 1) {
    Comparison comparison(sign);
    const ConstView all = ConstView::of(got_.data(), kCount);
    Expected head{{expected_.values.begin(), expected_.values.begin() + 100}, {}};
    Expected tail{{expected_.values.begin() + 100, expected_.values.end()}, {}};
    if (!expected_.bound.empty()) {
      head.bound.assign(100, expected_.bound[0]);
      tail.bound.assign(kCount - 100, expected_.bound[0]);
    }
    comparison.add(all.part(0, 100), 0, head);
    comparison.add(all.part(100, kCount - 100), 100, tail);
    return comparison;
  }

  static constexpr std::size_t kCount = 1000;
  std::vector<float> got_;
  Expected expected_;
};

TEST_F(Compared, RightIsRight) {
  EXPECT_EQ(compare().wrong(), 0U);
  EXPECT_DOUBLE_EQ(compare().moments().slope(), 1);
  allow(1e-3);
  got_[700] += 0.0005F;
  EXPECT_EQ(compare().wrong(), 0U);
  EXPECT_NEAR(compare().largest_error(), 0.5, 1e-3);
  got_[700] += 0.001F;
  EXPECT_EQ(compare().wrong(), 1U);
}

TEST_F(Compared, SignTurnsWhatIsExpected) {
  for (float& value : got_) value = -value;
  EXPECT_EQ(compare(-1).wrong(), 0U);
  EXPECT_THAT(compare(1).describe(), HasSubstr("1000 wrong: stale"));
}

TEST_F(Compared, NamesTheKind) {
  const auto right = got_;
  got_[321] = float_of(bits_of(got_[321]) ^ (1U << 18U));
  EXPECT_THAT(compare().describe(), testing::AllOf(HasSubstr("index 321: got "),
                                                   HasSubstr("1 wrong: one element, bit 18")));
  got_ = right;
  for (float& value : got_) value *= 4;
  EXPECT_THAT(compare().describe(), HasSubstr("scaled by 4"));
  got_ = right;
  for (std::size_t i = 64; i < 128; ++i) got_[i] = 0;
  EXPECT_THAT(compare().describe(), HasSubstr("index 64: got 0, wanted "));
  EXPECT_THAT(compare().describe(), HasSubstr("64 wrong: zeros"));
  for (std::size_t i = 64; i < 128; ++i) got_[i] = float_of(0xA5A5A5A5U);
  EXPECT_THAT(compare().describe(), HasSubstr("never written"));
  for (std::size_t i = 64; i < 128; ++i) got_[i] = float_of(kCanonicalNan32);
  EXPECT_EQ(compare().wrong(), 64U);
  EXPECT_THAT(compare().describe(), HasSubstr("not finite"));
  got_ = right;
  std::swap_ranges(got_.begin() + 64, got_.begin() + 128, got_.begin() + 500);
  EXPECT_THAT(compare().describe(), HasSubstr("128 wrong: other values"));
}

TEST_F(Compared, MergedIsAsOfOne) {
  got_[20] += 1;
  got_[700] += 2;
  const Comparison one = compare();
  const ConstView all = ConstView::of(got_.data(), kCount);
  Comparison head(1);
  Comparison tail(1);
  head.add(all.part(0, 300), 0, {{expected_.values.begin(), expected_.values.begin() + 300}, {}});
  tail.add(all.part(300, kCount - 300), 300,
           {{expected_.values.begin() + 300, expected_.values.end()}, {}});
  tail.merge(head);
  EXPECT_EQ(tail.wrong(), 2U);
  EXPECT_EQ(tail.describe(), one.describe());
  EXPECT_THAT(tail.describe(), HasSubstr("index 20: got "));
  EXPECT_NEAR(tail.moments().slope(), one.moments().slope(), 1e-12);
  EXPECT_EQ(tail.moments().count, kCount);
}

TEST(Workers, ShareEveryIndexOnceInOrder) {
  for (const std::size_t count : {1, 2, 3, 7}) {
    for (const std::size_t n : {0, 1, 2, 5, 100}) {
      std::vector<std::vector<std::size_t>> seen(count);
      Workers(count).parallel_for(
          n, [&](std::size_t worker, std::size_t i) { seen[worker].push_back(i); });
      std::vector<std::size_t> all;
      for (const auto& mine : seen) all.insert(all.end(), mine.begin(), mine.end());
      std::vector<std::size_t> wanted(n);
      std::iota(wanted.begin(), wanted.end(), 0);
      EXPECT_EQ(all, wanted) << count << " workers, " << n;
    }
  }
}

TEST(Workers, ThrowWhatOneThrows) {
  EXPECT_THROW(Workers(3).parallel_for(9,
                                       [](std::size_t, std::size_t i) {
                                         if (i == 8) throw std::runtime_error("eight");
                                       }),
               std::runtime_error);
}

TEST_F(Compared, SlopeSeesAFactorThatTheBoundHides) {
  allow(1.0);
  for (float& value : got_) value *= 1.05F;
  const Comparison comparison = compare();
  EXPECT_EQ(comparison.wrong(), 0U);
  EXPECT_NEAR(comparison.moments().slope(), 1.05, 1e-6);
}

TEST(Columns, NumbersInTheirWidth) {
  EXPECT_EQ(in_width(0.0, 7), "0.00");
  EXPECT_EQ(in_width(12.345, 7), "12.35");
  EXPECT_EQ(in_width(1234.5, 7), "1234.50");
  EXPECT_EQ(in_width(80922.4, 7), "80922.4");
  EXPECT_EQ(in_width(809224.4, 7), "809224");
  EXPECT_EQ(in_width(1234567, 7), "1234567");
  EXPECT_EQ(in_width(12345678, 7), "1.2e+07");
  EXPECT_EQ(in_width(132.69, 6), "132.69");
}

}  // namespace
}  // namespace zeropp::sweep

// ctest: name=contract1_codec_stochastic labels=sanitize
// Stochastic rounding (+sr): right on average, never off by a step, and a function of key and
// number alone.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lib/zero/plan/draw_keys.hpp"
#include "tests/support/codec_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Draw;
using codec::Layout;

constexpr std::size_t kDrawnBlock = 64;
/// Standard errors: of a few thousand means one is beyond by chance once in 10^5 runs.
constexpr double kLimit = 6;

std::vector<float> through(const Codec& codec, const std::vector<float>& values, const Draw& draw) {
  const std::size_t n = values.size();
  Wire wire(codec, n);
  codec.encode(ConstView::of(values.data(), n), Layout::contiguous(n), wire.images(), {}, draw);
  std::vector<float> back(n);
  codec.decode(wire.images(), Layout::contiguous(n), View::of(back.data(), n), {});
  return back;
}

/// The largest distance of a mean of 2000 encodings from its value, in standard errors, beyond what
/// eight encodings may make: a value close to a code is hardly ever rounded away from it.
double bias_of(const Codec& codec, const std::vector<float>& values) {
  constexpr int kKeys = 2000;
  const float largest = std::fabs(values[5]);
  const bool rotates = codec.name().find("had32") != std::string::npos;
  const double step = codec.error_bound(largest, largest) / (rotates ? 32 : 1);
  std::vector<double> sum(values.size(), 0.0);
  std::vector<double> squares(values.size(), 0.0);
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const std::vector<float> back = through(codec, values, {.key = derived_key(9, key, 0)});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = double{back[i]} - double{values[i]};
      sum[i] += error;
      squares[i] += error * error;
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double mean = sum[i] / kKeys;
    const double deviation = std::sqrt(std::max(squares[i] / kKeys - mean * mean, 0.0) / kKeys);
    worst = std::max(worst, (std::fabs(mean) - 8 * step / kKeys) / std::max(deviation, 1e-7));
  }
  return worst;
}

class Stochastic : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static Codec bind(const std::string& name) {
    return {codec::parse_codec(name), Dtype::fp32};
  }
  Codec codec_ = bind(GetParam());

  /// Values of magnitudes around 1. The largest is negative: `wide` clips a positive one.
  static std::vector<float> block_of(std::uint32_t seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(kDrawnBlock);
    for (float& value : values) value = std::clamp(normal(engine), -2.0F, 2.0F);
    values[5] = -2.5F;
    return values;
  }
};

TEST_P(Stochastic, MeansAreTheValues) {
  for (const std::uint32_t seed : {1U, 2U}) {
    EXPECT_LT(bias_of(codec_, block_of(seed)), kLimit) << GetParam();
  }
}

TEST_P(Stochastic, NearestIsNotRightOnAverage) {
  std::string nearest = GetParam();
  nearest.erase(nearest.find("+sr"), 3);
  EXPECT_GT(bias_of(bind(nearest), block_of(1)), kLimit) << "the limit sees a bias";
}

TEST_P(Stochastic, ARerunHasTheSameBytesAndAnotherKeyHasNot) {
  const Values in(random_values(1000, 3), Dtype::fp32);
  const auto image = [&](const Draw& draw) {
    Wire wire(codec_, in.size());
    codec_.encode(in.view(), Layout::contiguous(in.size()), wire.images(), {}, draw);
    return wire.image();
  };
  const Draw draw{.key = 7, .first = 4096};
  EXPECT_EQ(image(draw), image(draw));
  EXPECT_NE(image(draw), image({.key = 8, .first = 4096}));
  EXPECT_NE(image(draw), image({.key = 7, .first = 4096 + 1024}));
}

INSTANTIATE_TEST_SUITE_P(Codecs, Stochastic,
                         testing::Values("int2:64+sr", "int3:64+sr", "int4:64+sr", "int5:32+sr",
                                         "int6:64+sr", "int7:64+sr", "int8:64+sr",
                                         "int4:64+sr+wide", "int4:64+s32+sr", "int4:64+asym+sr",
                                         "int3:64+asym+s32+sr", "int4:64+had32+sr",
                                         "int8:64+had32+s32+sr"),
                         [](const auto& name) { return label_of(codec::parse_codec(name.param)); });

/// Values half a step above a code, in blocks whose scale is 1: every code is a toss of a coin.
class Coins : public testing::Test {
 protected:
  static constexpr std::size_t kTosses = 8192;

  static std::vector<float> tosses(const Draw& draw, std::size_t image = 0) {
    std::vector<float> values(kTosses, 0.5F);
    for (std::size_t i = 0; i < kTosses; i += kDrawnBlock) values[i] = 7.0F;
    const Codec codec(codec::parse_codec("int4:64+sr"), Dtype::fp32);
    Wire wire(codec, kTosses, image + 1);
    const Layout layout{image + 1, 0, 1, 0, kTosses, kTosses};
    codec.encode(ConstView::of(values.data(), kTosses), layout, wire.images(), {}, draw);
    codec::WireImages last = wire.images();
    last.data += image * last.stride;
    std::vector<float> back(kTosses);
    codec.decode(last, Layout::contiguous(kTosses), View::of(back.data(), kTosses), {});
    return back;
  }

  /// Tosses of which a and b say the same, as standard errors from a half.
  static double agreement(const std::vector<float>& a, const std::vector<float>& b) {
    double same = 0;
    double count = 0;
    for (std::size_t i = 0; i < kTosses; ++i) {
      if (i % kDrawnBlock == 0) continue;
      EXPECT_TRUE(a[i] == 0 || a[i] == 1);
      ++count;
      same += a[i] == b[i] ? 1 : 0;
    }
    return std::fabs(same - count / 2) / std::sqrt(count / 4);
  }
};

TEST_F(Coins, OfOtherKeysAndNumbersAreIndependent) {
  const std::vector<float> given = tosses({.key = 1, .first = 0});
  EXPECT_GT(agreement(given, tosses({.key = 1, .first = 0})), 50);
  for (const Draw& other :
       {Draw{.key = 2}, Draw{.key = std::uint64_t{1} << 32U | 1U}, Draw{.key = 1, .first = kTosses},
        Draw{.key = 1, .first = std::uint64_t{1} << 40U}}) {
    EXPECT_LT(agreement(given, tosses(other)), kLimit) << other.key << " " << other.first;
  }
  EXPECT_LT(agreement(given, tosses({.key = 1, .image_step = std::uint64_t{1} << 40U}, 1)), kLimit);
  // Neighbours.
  std::vector<float> shifted(given.begin() + 1, given.end());
  shifted.push_back(0);
  std::vector<float> groups(given.begin() + kDrawnBlock, given.end());
  groups.resize(kTosses, 0);
  EXPECT_LT(agreement(given, shifted), kLimit + 3) << "one of 64 neighbours is no toss";
  EXPECT_LT(agreement(given, groups), kLimit);
}

TEST_F(Coins, ASliceIsNumberedByItsStep) {
  const Codec codec(codec::parse_codec("int4:64+sr"), Dtype::fp32);
  const std::vector<float> values = [] {
    std::vector<float> all(2 * kDrawnBlock, 0.5F);
    all[0] = all[kDrawnBlock] = 7.0F;
    return all;
  }();
  Wire together(codec, 2 * kDrawnBlock);
  codec.encode(ConstView::of(values.data(), values.size()),
               {1, 0, 2, kDrawnBlock, kDrawnBlock, kDrawnBlock}, together.images(), {},
               {.key = 3, .first = 64, .slice_step = 4096});
  std::vector<float> back(2 * kDrawnBlock);
  codec.decode(together.images(), Layout::contiguous(back.size()),
               View::of(back.data(), back.size()), {});
  const std::vector<float> slice(values.begin(), values.begin() + kDrawnBlock);
  for (const std::size_t j : {0U, 1U}) {
    const std::vector<float> alone = through(codec, slice, {.key = 3, .first = 64 + j * 4096});
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                           back.begin() + static_cast<std::ptrdiff_t>(j * kDrawnBlock)));
  }
}

TEST(DrawKeys, DifferInEverythingThatTheyAreMadeFrom) {
  std::set<std::uint64_t> keys;
  std::size_t made = 0;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (const std::uint64_t when : {0U, 1U, 2U}) {
      for (const std::size_t a : {0U, 1U, 2U}) {
        keys.insert(zero::weight_draws(seed, when, a));
        ++made;
        for (const std::size_t b : {0U, 1U, 2U}) {
          keys.insert(zero::gradient_draws(seed, when, a, b));
          ++made;
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), made);
  EXPECT_EQ(zero::weight_draws(5, 6, 7), zero::weight_draws(5, 6, 7));
}

}  // namespace
}  // namespace zeropp::test

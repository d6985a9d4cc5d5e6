// ctest: name=contract1_optimizer_moments timeout=60 labels=sanitize joined=no
// Moments in bf16 and in 8 bits on the host: the dynamic map is its definition, codes are the
// nearest values, rounding is unbiased, what is not finite is not hidden, a step is the step of
// fp32 between widening and storing, and pieces may be cut anywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/optim/moments.hpp"
#include "kernels/optim/optim_ops.hpp"
#include "kernels/optim/registry.hpp"
#include "tests/support/optimizer_reference.hpp"

namespace zeropp::optim {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The values of section 2.2 as bitsandbytes lists them, in increasing order: linspace(0.1, 1),
/// middles, powers of ten.
std::vector<double> defined_values(bool is_signed) {
  std::vector<double> values{0.0, 1.0};
  for (int i = 0; i < 7; ++i) {
    const int parts = is_signed ? 1 << i : 1 << (i + 1);
    for (int k = 0; k < parts; ++k) {
      const double low = 0.1 + 0.9 * k / parts;
      const double high = 0.1 + 0.9 * (k + 1) / parts;
      const double value = std::pow(10.0, i - 6) * (low + high) / 2;
      values.push_back(value);
      if (is_signed) values.push_back(-value);
    }
  }
  std::ranges::sort(values);
  return values;
}

template <bool Signed>
void expect_the_definition() {
  const std::vector<double> wanted = defined_values(Signed);
  ASSERT_EQ(wanted.size(), 256U);
  std::vector<float> values(std::begin(kDynamicMap<Signed>.value),
                            std::end(kDynamicMap<Signed>.value));
  EXPECT_EQ(values[0], 0.0F);
  std::ranges::sort(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], wanted[i], 1e-7 * std::abs(wanted[i])) << i;
  }
}

TEST(DynamicMap, HasTheValuesOfItsDefinition) {
  expect_the_definition<true>();
  expect_the_definition<false>();
}

/// Distance of the nearest value of a map, by looking at all.
double nearest_distance(const HostDynamicMap& map, double x) {
  double best = 2;
  for (const float value : map.value) best = std::min(best, std::abs(value - x));
  return best;
}

template <bool Signed>
void expect_nearest() {
  const HostDynamicMap& map = kDynamicMap<Signed>;
  const BlockScale one{1.0F, 1.0F};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-30, 0);
  std::vector<float> tried{1.0F, 0.0F, 0.99609375F, 1e-30F, 2.5e-7F};
  for (const float bound : map.bound) {
    if (bound < 1) tried.insert(tried.end(), {bound, std::nextafter(bound, 0.0F)});
  }
  for (int i = 0; i < 20'000; ++i) {
    tried.push_back(static_cast<float>(std::exp2(exponent(random))));
  }
  for (const float magnitude : tried) {
    for (const float x : {magnitude, -magnitude}) {
      if (!Signed && x < 0) continue;
      const float got = map.value[moment_code<Signed>(map, one, x)];
      if (!Signed && x > 0 && got == map.value[1]) {  // zero may be nearer, and is for zero
        EXPECT_LE(x, map.bound[1]) << x;
        continue;
      }
      EXPECT_LE(std::abs(got - x), nearest_distance(map, x) + 2e-7 * std::abs(x)) << x;
    }
  }
}

TEST(DynamicMap, CodesAreTheNearestValues) {
  expect_nearest<true>();
  expect_nearest<false>();
}

/// A GPU's map is the host's, in bytes.
TEST(DynamicMap, IsTheSameInBytes) {
  for (const bool is_signed : {true, false}) {
    const DynamicMap bytes = make_dynamic_map<std::uint8_t>(is_signed);
    const HostDynamicMap words = make_dynamic_map<std::uint32_t>(is_signed);
    EXPECT_TRUE(std::ranges::equal(bytes.value, words.value));
    EXPECT_TRUE(std::ranges::equal(bytes.bound, words.bound));
    EXPECT_TRUE(std::ranges::equal(bytes.below, words.below));
  }
}

TEST(DynamicMap, EveryValueHasItsOwnCode) {
  const BlockScale one{1.0F, 1.0F};
  for (unsigned code = 0; code < 256; ++code) {
    EXPECT_EQ((moment_code<true>(kDynamicMap<true>, one, kDynamicMap<true>.value[code])), code);
    EXPECT_EQ((moment_code<false>(kDynamicMap<false>, one, kDynamicMap<false>.value[code])), code);
  }
}

/// Clearing memory makes moments zero.
TEST(Moments, AreZeroWhereTheirBytesAre) {
  for (const Moments kind : {Moments::fp32, Moments::bf16, Moments::int8}) {
    for (const bool is_signed : {true, false}) {
      const std::vector<std::byte> values(400);
      const std::vector<float> scales(2);
      std::vector<float> wide(100, kNan);
      widen_moments(kind, is_signed, 100, values.data(), scales.data(), wide.data());
      EXPECT_EQ(wide, std::vector<float>(100, 0.0F));
    }
  }
}

TEST(Moments, BytesAreThoseOfTheirElementsAndScales) {
  EXPECT_EQ(Kept(2).bytes(128), 1024U);
  EXPECT_EQ(Kept(2, Moments::bf16).bytes(128), 512U);
  EXPECT_EQ(Kept(2, Moments::int8).bytes(128), 272U);
  EXPECT_EQ(Kept(1, Moments::int8).bytes(65), 65U + 8U);
  EXPECT_EQ(Kept(0, Moments::int8).bytes(128), 0U);
}

/// The largest magnitude of a block is kept exactly. The relative error of small values stays
/// within the limit that the parts of a decade give, and a positive second moment does not become
/// zero.
TEST(Moments, InEightBitsKeepTheLargestAndLoseLittle) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {1U, 63U, 64U, 65U, 1000U}) {
    std::vector<float> values(n);
    for (float& value : values) value = 1e-4F * normal(random);
    values[n / 2] = 3e-3F;
    values[0] = 1e-12F;
    for (const bool is_signed : {true, false}) {
      std::vector<float> of = values;
      if (!is_signed) {
        for (float& value : of) value *= value;
      }
      std::vector<std::byte> codes(n, std::byte{0xA5});
      std::vector<float> scales(moment_scales(Moments::int8, n), kNan);
      std::vector<float> wide(n, kNan);
      keep_moments(Moments::int8, is_signed, n, of.data(), codes.data(), scales.data());
      widen_moments(Moments::int8, is_signed, n, codes.data(), scales.data(), wide.data());
      for (std::size_t i = 0; i < n; ++i) {
        const float scale = scales[i / kMomentBlock];
        EXPECT_LE(std::abs(of[i]), scale);
        EXPECT_LE(std::abs(wide[i] - of[i]), 0.0071F * scale) << i << " of " << n;
        if (std::abs(of[i]) > 1e-3F * scale && std::abs(of[i]) < 0.9F * scale) {
          EXPECT_LE(std::abs(wide[i] - of[i]), 0.2F * std::abs(of[i])) << i << " of " << n;
        }
        if (of[i] == scale) {
          EXPECT_EQ(wide[i], of[i]);
        }
        EXPECT_TRUE(is_signed || wide[i] > 0.0F) << i << " of " << n;
      }
    }
  }
}

TEST(Moments, InEightBitsHideNothingThatIsNotFinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    std::vector<float> values(130, 1.0F);
    values[70] = bad;
    std::vector<std::byte> codes(130, std::byte{0xA5});
    std::vector<float> scales(3, 7.0F);
    keep_moments(Moments::int8, true, 130, values.data(), codes.data(), scales.data());
    std::vector<float> wide(130);
    widen_moments(Moments::int8, true, 130, codes.data(), scales.data(), wide.data());
    for (std::size_t i = 0; i < 130; ++i) {
      EXPECT_EQ(std::isnan(wide[i]), i / kMomentBlock == 1) << i;
    }
  }
}

TEST(Moments, InEightBitsOfBlocksThatAreTooSmallAreZero) {
  const std::vector<float> values(64, 1e-39F);
  std::vector<std::byte> codes(64, std::byte{0xA5});
  std::vector<float> scales(1, kNan);
  keep_moments(Moments::int8, false, 64, values.data(), codes.data(), scales.data());
  EXPECT_EQ(scales[0], 0.0F);
  EXPECT_EQ(codes, std::vector<std::byte>(64));
}

TEST(StochasticBf16, IsUnbiasedAndBetweenTheNeighbours) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 50; ++i) {
    const float value = normal(random);
    double sum = 0;
    for (std::uint32_t draw = 0; draw < 65'536; ++draw) {
      const float got = to_float(stochastic_bf16(value, draw));
      ASSERT_LE(std::abs(got - value), std::abs(value) / 128);
      ASSERT_EQ(std::signbit(got), std::signbit(value));
      sum += got;
    }
    EXPECT_NEAR(sum / 65'536, value, 1e-7 * std::abs(value));  // every draw once: exact
  }
}

TEST(StochasticBf16, KeepsWhatBf16HasAndSaturates) {
  for (const std::uint32_t draw : {0U, 1U, 0x8000U, 0xFFFFU}) {
    for (const float exact : {0.0F, -0.0F, 1.0F, -1.5F, 3.0e38F / 3.0e38F}) {
      EXPECT_EQ(bits_of(to_float(stochastic_bf16(exact, draw))), bits_of(exact));
    }
    EXPECT_EQ(stochastic_bf16(kInfinity, draw).bits, 0x7F80U);
    EXPECT_EQ(stochastic_bf16(-kInfinity, draw).bits, 0xFF80U);
    EXPECT_EQ(stochastic_bf16(-kNan, draw).bits, kCanonicalNanBf16);
    EXPECT_EQ(stochastic_bf16(kLargestFinite32, draw).bits, 0x7F7FU);
    EXPECT_EQ(stochastic_bf16(-kLargestFinite32, draw).bits, 0xFF7FU);
  }
}

/// Weights with moments of any type; each step is compared with a step of fp32 moments.
struct Parameters {
  Parameters(const Options& of, std::vector<float> weights, std::byte poison = std::byte{0})
      : options(of), variant(variant_of(of)), weight(std::move(weights)) {
    const std::size_t n = weight.size();
    for (std::size_t i = 0; i < variant.states; ++i) {
      values.emplace_back(n * moment_element_bytes(of.moments), poison);
      scales.emplace_back(moment_scales(of.moments, n), 0.0F);
    }
  }

  UpdatePiece piece(std::size_t first, std::size_t n, const std::vector<float>& gradient) {
    UpdatePiece made{.gradient = gradient.data() + first,
                     .weight = weight.data() + first,
                     .state = {},
                     .narrow = nullptr,
                     .count = static_cast<std::uint32_t>(n),
                     .decay = true,
                     .number = 7000 + first};
    for (std::size_t i = 0; i < values.size(); ++i) {
      made.state[i] = values[i].data() + first * moment_element_bytes(options.moments);
      if (!scales[i].empty()) made.scale[i] = scales[i].data() + first / kMomentBlock;
    }
    return made;
  }
  void step(std::uint64_t t, std::span<const UpdatePiece> pieces) {
    variant.host(options, {t, {0.5F, 0.9F}, 1234 + t}, Dtype::fp32, pieces, {});
  }
  [[nodiscard]] std::vector<std::vector<float>> wide() const {
    std::vector<std::vector<float>> made;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::vector<float>& state = made.emplace_back(weight.size());
      widen_moments(options.moments, variant.is_signed[i], weight.size(), values[i].data(),
                    scales[i].data(), state.data());
    }
    return made;
  }

  Options options;
  Variant variant;
  std::vector<float> weight;
  std::vector<std::vector<std::byte>> values;
  std::vector<std::vector<float>> scales;
};

std::vector<float> drawn(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> made(n);
  for (float& value : made) value = normal(engine);
  return made;
}

class EveryKind : public testing::TestWithParam<std::tuple<Options, Moments>> {
 protected:
  static Options options(Moments kind) {
    Options made = std::get<0>(GetParam());
    made.moments = kind;
    return made;
  }
  static Options options() { return options(std::get<1>(GetParam())); }
};

/// Weights have the bits of the step of fp32 from the moments that were kept; new moments are those
/// of that step but for rounding, and the second is never negative.
TEST_P(EveryKind, StepsAsFp32FromTheMomentsThatWereKept) {
  for (const std::size_t n : {1U, 31U, 64U, 1000U}) {
    Parameters kept(options(), drawn(n, 1));
    for (std::uint64_t t = 1; t <= 10; ++t) {
      const std::vector<float> gradient = drawn(n, 10 + static_cast<unsigned>(t));
      Parameters exact(options(Moments::fp32), kept.weight);
      const auto before = kept.wide();
      for (std::size_t i = 0; i < before.size(); ++i) {
        keep_moments(Moments::fp32, true, n, before[i].data(), exact.values[i].data(), nullptr);
      }
      const UpdatePiece own = kept.piece(0, n, gradient);
      const UpdatePiece reference = exact.piece(0, n, gradient);
      kept.step(t, {&own, 1});
      exact.step(t, {&reference, 1});
      ASSERT_EQ(kept.weight, exact.weight) << n << ", step " << t;
      const auto got = kept.wide();
      const auto wanted = exact.wide();
      for (std::size_t s = 0; s < got.size(); ++s) {
        for (std::size_t i = 0; i < n; ++i) {
          const float largest =
              options().moments == Moments::int8 ? kept.scales[s][i / kMomentBlock] : wanted[s][i];
          ASSERT_LE(std::abs(got[s][i] - wanted[s][i]), std::abs(largest) / 127) << s << ", " << i;
          ASSERT_TRUE(kept.variant.is_signed[s] || got[s][i] >= 0.0F) << i;
        }
      }
    }
  }
}

/// Cut anywhere (in 8 bits: at blocks), aligned or not, with other pieces in the same call: the
/// same bits, and nothing beside them is written.
TEST_P(EveryKind, HasTheSameBitsInAnyPieces) {
  constexpr std::size_t kCount = 6000;
  std::mt19937 random(4);
  Parameters whole(options(), drawn(kCount, 1));
  Parameters cut(options(), whole.weight);
  const bool blocks = options().moments == Moments::int8;
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = drawn(kCount, 20 + static_cast<unsigned>(t));
    const UpdatePiece all = whole.piece(0, kCount, gradient);
    whole.step(t, {&all, 1});
    std::vector<UpdatePiece> pieces;
    for (std::size_t first = 0; first < kCount;) {
      std::size_t n = 1 + random() % 700;
      if (blocks) n = (n + kMomentBlock - 1) / kMomentBlock * kMomentBlock;
      n = std::min(n, kCount - first);
      pieces.push_back(cut.piece(first, n, gradient));
      first += n;
    }
    std::ranges::shuffle(pieces, random);
    cut.step(t, pieces);
  }
  EXPECT_EQ(cut.weight, whole.weight);
  EXPECT_EQ(cut.values, whole.values);
  EXPECT_EQ(cut.scales, whole.scales);
}

TEST_P(EveryKind, LeavesWhatIsNoneOfItsPieces) {
  Parameters parameters(options(), drawn(256, 1), std::byte{0xA5});
  const std::vector<float> gradient = drawn(256, 2);
  for (auto& scales : parameters.scales) std::ranges::fill(scales, 5.0F);
  const Parameters before = parameters;
  const UpdatePiece middle = parameters.piece(64, 70, gradient);
  parameters.step(1, {&middle, 1});
  const std::size_t size = moment_element_bytes(options().moments);
  for (std::size_t s = 0; s < parameters.values.size(); ++s) {
    for (std::size_t i = 0; i < 256 * size; ++i) {
      if (i >= 64 * size && i < 134 * size) continue;
      ASSERT_EQ(parameters.values[s][i], before.values[s][i]) << i;
    }
    if (parameters.scales[s].empty()) continue;
    EXPECT_EQ(parameters.scales[s][0], 5.0F);
    EXPECT_EQ(parameters.scales[s][3], 5.0F);
  }
}

TEST_P(EveryKind, CarriesGradientsThatAreNotANumber) {
  Parameters parameters(options(), std::vector<float>(128, 1.0F));
  std::vector<float> gradient(128, 0.5F);
  gradient[3] = kNan;
  for (std::uint64_t t = 1; t <= 2; ++t) {
    const UpdatePiece all = parameters.piece(0, 128, gradient);
    parameters.step(t, {&all, 1});
    EXPECT_TRUE(std::isnan(parameters.weight[3]));
    EXPECT_TRUE(std::isfinite(parameters.weight[100]));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryKind,
                         testing::Combine(testing::ValuesIn(test::optimizer_cases()),
                                          testing::Values(Moments::bf16, Moments::int8)),
                         [](const auto& of) {
                           const Options& o = std::get<0>(of.param);
                           return o.type + (o.momentum > 0 ? "Momentum" : "") +
                                  (o.nesterov ? "Nesterov" : "") +
                                  std::string(enum_name(std::get<1>(of.param)));
                         });

/// Over many steps of noise the mean of bf16 moments follows the mean of fp32 moments. Rounding to
/// the nearest would not: with beta2 0.999 a step changes a moment by less than half a unit.
TEST(Moments, InBf16FollowTheMeanOfFp32) {
  constexpr std::size_t kCount = 4096;
  constexpr int kSteps = 500;
  const Options options{.type = "AdamW", .learning_rate = 0, .beta2 = 0.999};
  Options narrow = options;
  narrow.moments = Moments::bf16;
  Parameters wanted(options, std::vector<float>(kCount));
  Parameters got(narrow, std::vector<float>(kCount));
  for (std::uint64_t t = 1; t <= kSteps; ++t) {
    const std::vector<float> gradient = drawn(kCount, static_cast<unsigned>(t));
    for (Parameters* each : {&wanted, &got}) {
      const UpdatePiece all = each->piece(0, kCount, gradient);
      each->step(t, {&all, 1});
    }
  }
  const auto mean_of = [](const std::vector<float>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / kCount;
  };
  EXPECT_NEAR(mean_of(got.wide()[1]) / mean_of(wanted.wide()[1]), 1.0, 0.004);
}

}  // namespace
}  // namespace zeropp::optim

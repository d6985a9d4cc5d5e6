// ctest: name=contract1_optimizer_rules timeout=60 labels=sanitize
// Every optimizer of the registry on the host: against its formula in double precision, over many
// steps, with clipping, the mean and weight decay; the 16-bit weights that follow; pieces of any
// length.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>
#include <set>

#include "kernels/core/half.hpp"
#include "kernels/optim/learning_rate.hpp"
#include "kernels/optim/optim_ops.hpp"
#include "kernels/optim/registry.hpp"
#include "tests/support/optimizer_reference.hpp"

namespace zeropp::optim {
namespace {

std::vector<float> drawn_values(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(engine);
  return values;
}

/// Weights with what the optimizer keeps for them.
struct Parameters {
  Parameters(const Options& of, std::vector<float> weights)
      : options(of),
        variant(variant_of(of)),
        weight(std::move(weights)),
        states(variant.states, std::vector<float>(weight.size(), 0.0F)) {}

  UpdatePiece piece(std::size_t first, std::size_t n, bool decay,
                    const std::vector<float>& gradient, View shard = {}) {
    UpdatePiece made{gradient.data() + first,   weight.data() + first,         {},
                     shard.part(first, n).data, static_cast<std::uint32_t>(n), decay};
    for (std::size_t i = 0; i < states.size(); ++i) made.state[i] = states[i].data() + first;
    return made;
  }
  void step(const Step& step, std::span<const UpdatePiece> pieces, Dtype narrow = Dtype::fp32) {
    variant.host(options, step, narrow, pieces, {});
  }
  /// One step of all as one piece.
  void step(const Step& step, bool decay, const std::vector<float>& gradient, View shard = {}) {
    const UpdatePiece all = piece(0, weight.size(), decay, gradient, shard);
    this->step(step, {&all, 1}, shard.dtype);
  }

  Options options;
  Variant variant;
  std::vector<float> weight;
  std::vector<std::vector<float>> states;
};

class EveryOptimizer : public testing::TestWithParam<Options> {};

TEST_P(EveryOptimizer, FollowsTheFormulaInDoublePrecisionForManySteps) {
  for (const std::size_t n : {1U, 31U, 1024U, 2500U}) {
    for (const bool decays : {true, false}) {
      Parameters parameters(GetParam(), drawn_values(n, 1));
      std::vector<test::ReferenceParameter> expected(n);
      for (std::size_t i = 0; i < n; ++i) expected[i].weight = parameters.weight[i];
      for (std::uint64_t t = 1; t <= 20; ++t) {
        const std::vector<float> gradient = drawn_values(n, 100 + static_cast<unsigned>(t));
        const float clip = t % 2 == 0 ? 0.5F : 1.0F;
        const float mean = t % 3 == 0 ? 0.125F : 1.0F;
        parameters.step({t, {mean, clip}}, decays, gradient);
        for (std::size_t i = 0; i < n; ++i) {
          expected[i].step(GetParam(), t, decays, gradient[i] * static_cast<double>(mean) * clip);
        }
      }
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(parameters.weight[i], expected[i].weight, 2e-5) << i << " of " << n;
        for (std::size_t s = 0; s < parameters.states.size(); ++s) {
          ASSERT_NEAR(parameters.states[s][i], expected[i].state[s],
                      2e-6 * (1 + std::abs(expected[i].state[s])))
              << "state " << s << ", " << i << " of " << n;
        }
      }
    }
  }
}

/// The number of states that the reference keeps is the required number of arrays.
TEST_P(EveryOptimizer, KeepsWhatItsFormulaNeeds) {
  test::ReferenceParameter parameter{.weight = 1};
  parameter.step(GetParam(), 1, true, 0.5);
  const auto kept = static_cast<std::size_t>(
      std::ranges::count_if(parameter.state, [](double value) { return value != 0; }));
  EXPECT_EQ(variant_of(GetParam()).states, kept);
}

TEST_P(EveryOptimizer, CutsTheSixteenBitShardFromTheNewWeights) {
  constexpr std::size_t kCount = 2500;
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    Parameters parameters(GetParam(), drawn_values(kCount, 1));
    parameters.weight[7] = 3e38F;
    const std::vector<float> gradient = drawn_values(kCount, 2);
    std::vector<std::uint16_t> shard(kCount, 0xA5A5);
    parameters.step({1, {1.0F, 1.0F}}, true, gradient, {shard.data(), kCount, dtype});
    for (std::size_t i = 0; i < kCount; ++i) {
      const float weight = parameters.weight[i];
      ASSERT_EQ(shard[i], dtype == Dtype::bf16 ? saturating_cast<Bf16>(weight).bits
                                               : saturating_cast<Fp16>(weight).bits)
          << i;
    }
  }
}

TEST_P(EveryOptimizer, LeavesUndecayedWeightsAloneWithoutGradient) {
  Parameters parameters(GetParam(), {1.5F, -2.0F});
  const std::vector<float> zeros(2, 0.0F);
  parameters.step({1, {1.0F, 1.0F}}, false, zeros);
  EXPECT_EQ(parameters.weight, (std::vector<float>{1.5F, -2.0F}));
  parameters.step({2, {1.0F, 1.0F}}, true, zeros);
  EXPECT_LT(parameters.weight[0], 1.5F);
  EXPECT_GT(parameters.weight[1], -2.0F);
}

/// A step of a schedule is one at its rate.
TEST_P(EveryOptimizer, TakesTheRateOfItsSchedule) {
  for (const Schedule& schedule : schedules()) {
    Options scheduled = GetParam();
    scheduled.schedule = {.type = std::string(schedule.name),
                          .warmup_min_lr = 1e-3,
                          .warmup_max_lr = 0.03,
                          .warmup_num_steps = 3,
                          .total_num_steps = 7};
    Parameters parameters(scheduled, drawn_values(100, 1));
    Parameters expected(GetParam(), parameters.weight);
    for (std::uint64_t t = 1; t <= 9; ++t) {
      const std::vector<float> gradient = drawn_values(100, 10 + static_cast<unsigned>(t));
      parameters.step({t, {1.0F, 1.0F}}, true, gradient);
      expected.options.learning_rate = learning_rate(scheduled, t);
      expected.step({t, {1.0F, 1.0F}}, true, gradient);
      ASSERT_EQ(parameters.weight, expected.weight) << schedule.name << ", step " << t;
    }
  }
}

/// The factor of the mean gives the bits that gradients have which were multiplied before.
TEST_P(EveryOptimizer, RoundsTheMeanBeforeItClips) {
  constexpr std::size_t kCount = 5000;
  constexpr float kMean = 1.0F / 3.0F;
  Parameters folded(GetParam(), drawn_values(kCount, 1));
  Parameters apart(GetParam(), folded.weight);
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> sum = drawn_values(kCount, 10 + static_cast<unsigned>(t));
    std::vector<float> gradient = sum;
    for (float& value : gradient) value *= kMean;
    folded.step({t, {kMean, 0.7F}}, true, sum);
    apart.step({t, {1.0F, 0.7F}}, true, gradient);
  }
  EXPECT_EQ(folded.weight, apart.weight);
  EXPECT_EQ(folded.states, apart.states);
}

/// Many pieces of one call, of any lengths, give what a call for each gives, and nothing beside.
TEST_P(EveryOptimizer, TakesPiecesOfAnyLengthAtOnce) {
  constexpr std::size_t kCount = 20'000;
  const Step step{1, {0.25F, 0.9F}};
  const std::vector<float> gradient = drawn_values(kCount, 2);
  std::mt19937 random(3);
  Parameters together(GetParam(), drawn_values(kCount, 1));
  Parameters apart(GetParam(), together.weight);
  std::vector<UpdatePiece> pieces;
  for (std::size_t first = 0; first < kCount;) {
    const std::size_t n =
        std::min<std::size_t>(random() % 3 == 0 ? 0 : random() % 5000, kCount - first);
    const bool decay = random() % 2 == 0;
    pieces.push_back(together.piece(first, n, decay, gradient));
    const UpdatePiece alone = apart.piece(first, n, decay, gradient);
    apart.step(step, {&alone, 1});
    first += n + random() % 7;  // a gap that stays as it was
  }
  together.step(step, pieces);
  EXPECT_EQ(together.weight, apart.weight);
  EXPECT_EQ(together.states, apart.states);
  together.step(step, {});
}

/// The engine skips such steps; alone, no update hides them.
TEST_P(EveryOptimizer, CarriesGradientsThatAreNotANumber) {
  Parameters parameters(GetParam(), {1.0F, 1.0F});
  parameters.step({1, {1.0F, 1.0F}}, true, {std::numeric_limits<float>::quiet_NaN(), 0.5F});
  EXPECT_TRUE(std::isnan(parameters.weight[0]));
  EXPECT_TRUE(std::isfinite(parameters.weight[1]));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOptimizer, testing::ValuesIn(test::optimizer_cases()),
                         [](const auto& of) {
                           return of.param.type + (of.param.momentum > 0 ? "Momentum" : "") +
                                  (of.param.nesterov ? "Nesterov" : "");
                         });

/// The folder is the registry.
TEST(Optimizers, AreTheFilesOfTheFolder) {
  const char* const source = std::getenv("ZEROPP_SOURCE");
  ASSERT_NE(source, nullptr) << "set ZEROPP_SOURCE to the source tree";
  std::set<std::string> files;
  const auto folder = std::filesystem::path(source) / "kernels/optim/rules";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.insert(entry.path().stem().string());
  }
  const std::set<std::string> registered = {
#define ZEROPP_ENTRY(name) #name,
#include "optimizer_rules.inc"
#undef ZEROPP_ENTRY
  };
  EXPECT_EQ(registered, files);
  EXPECT_EQ(rules().size(), files.size());
}

TEST(Optimizers, AreNamedOnceAndReadALearningRate) {
  const std::vector<std::string> names = types();
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  for (const std::string& name : names) EXPECT_TRUE(reads(name, "lr")) << name;
  EXPECT_FALSE(reads("SGD", "betas"));
  EXPECT_FALSE(reads("another", "lr"));
  EXPECT_EQ(readers("momentum"), "SGD");
  EXPECT_THROW(variant_of({.type = "another"}), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp::optim

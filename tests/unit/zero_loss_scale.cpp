// ctest: name=zero_loss_scale labels=sanitize
// The loss scale step by step, against tables that were worked out by hand from the rules that
// DeepSpeed documents for its `fp16` object: window, hysteresis, minimum, consecutive hysteresis.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/zero/plan/loss_scale.hpp"

namespace zeropp::zero {
namespace {

/// Steps as letters, o: overflow, '.': none; and the scale after each.
struct Sequence {
  const char* name;
  LossScaleOptions options;
  std::string steps;
  std::vector<double> scales;
};

void PrintTo(const Sequence& sequence, std::ostream* out) { *out << sequence.name; }

class Sequences : public testing::TestWithParam<Sequence> {};

TEST_P(Sequences, FollowTheTable) {
  const Sequence& sequence = GetParam();
  ASSERT_EQ(sequence.steps.size(), sequence.scales.size());
  LossScale scale(sequence.options);
  for (std::size_t i = 0; i < sequence.steps.size(); ++i) {
    ASSERT_TRUE(scale.update(sequence.steps[i] == 'o')) << "step " << i;
    EXPECT_EQ(scale.value(), sequence.scales[i]) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Sequences,
    testing::Values(
        Sequence{"doubles after every window",
                 {.initial_power = 4, .window = 3},
                 ".......",
                 {16, 16, 32, 32, 32, 64, 64}},
        Sequence{"a window of one step", {.initial_power = 0, .window = 1}, "...", {2, 4, 8}},
        Sequence{"halves at every overflow",
                 {.initial_power = 4, .window = 9, .hysteresis = 1},
                 "oo.o",
                 {8, 4, 4, 2}},
        Sequence{"an overflow begins the window anew",
                 {.initial_power = 4, .window = 3, .hysteresis = 1},
                 "..o...",
                 {16, 16, 8, 8, 8, 16}},
        Sequence{"an overflow that only counts begins it anew too",
                 {.initial_power = 4, .window = 3, .hysteresis = 2},
                 "..o...",
                 {16, 16, 16, 16, 16, 32}},
        Sequence{"the third overflow halves, and each after it",
                 {.initial_power = 6, .window = 9, .hysteresis = 3},
                 "o.oooo",
                 {64, 64, 64, 32, 16, 8}},
        Sequence{"doubling gives the hysteresis back",
                 {.initial_power = 6, .window = 2, .hysteresis = 2},
                 "oo..oo",
                 {64, 32, 32, 64, 64, 32}},
        Sequence{"clean steps before it do not",
                 {.initial_power = 6, .window = 3, .hysteresis = 2},
                 "o..o..o",
                 {64, 64, 64, 32, 32, 32, 16}},
        Sequence{"consecutive hysteresis: every clean step does",
                 {.initial_power = 6, .window = 9, .hysteresis = 2, .consecutive_hysteresis = true},
                 "o.o.oo.oo",
                 {64, 64, 64, 64, 64, 32, 32, 32, 16}},
        Sequence{"not below the minimum",
                 {.initial_power = 4, .window = 9, .hysteresis = 1, .minimum = 6},
                 "o.o",
                 {8, 8, 6}},
        Sequence{"the hysteresis holds at the minimum too",
                 {.initial_power = 2, .window = 9, .hysteresis = 3, .minimum = 4},
                 "oo.",
                 {4, 4, 4}},
        Sequence{"a minimum below one",
                 {.initial_power = 0, .window = 9, .hysteresis = 1, .minimum = 0.25},
                 "oo",
                 {0.5, 0.25}},
        Sequence{"a fixed scale stays",
                 {.fixed = 1000, .window = 1},
                 "..oo.",
                 {1000, 1000, 1000, 1000, 1000}}));

/// The scale after `steps` more steps; no step makes it fall below the minimum.
double after(LossScale& scale, const std::string& steps) {
  for (const char step : steps) EXPECT_TRUE(scale.update(step == 'o'));
  return scale.value();
}

TEST(LossScale, HasDeepSpeedsDefaults) {
  LossScale scale({});
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_EQ(after(scale, "o"), 65536) << "hysteresis 2";
  EXPECT_EQ(after(scale, "o"), 32768);
  EXPECT_EQ(after(scale, std::string(999, '.')), 32768);
  EXPECT_EQ(after(scale, "."), 65536) << "window 1000";
  EXPECT_EQ(after(scale, std::string(17, 'o')), 1) << "the first of them only counts";
  EXPECT_FALSE(scale.update(true)) << "the minimum";
}

TEST(LossScale, StaysAsItIsWhereItCannotFall) {
  LossScale scale({.initial_power = 3, .hysteresis = 1, .minimum = 8});
  const LossScale::State before = scale.state();
  EXPECT_FALSE(scale.update(true));
  EXPECT_EQ(scale.state(), before);
  EXPECT_EQ(after(scale, "."), 8);
  scale.restore({.scale = 4});  // of a run with a lower minimum
  EXPECT_FALSE(scale.update(true));
  EXPECT_EQ(scale.value(), 4) << "an overflow never raises it";
}

TEST(LossScale, StopsGrowingWhereItsInverseIsStillNormal) {
  LossScale scale({.initial_power = 63, .window = 1});
  EXPECT_EQ(after(scale, "."), kLargestLossScale);
  EXPECT_EQ(after(scale, "."), kLargestLossScale);
}

TEST(LossScale, GoesOnFromItsState) {
  const LossScaleOptions options{.initial_power = 8, .window = 3, .hysteresis = 2};
  const std::string steps = ".o..o...oo....o.o..o";
  for (std::size_t cut = 0; cut <= steps.size(); ++cut) {
    LossScale whole(options);
    after(whole, steps.substr(0, cut));
    LossScale resumed(options);
    resumed.restore(whole.state());
    for (std::size_t i = cut; i < steps.size(); ++i) {
      const std::string step(1, steps[i]);
      EXPECT_EQ(after(resumed, step), after(whole, step)) << "cut " << cut << ", step " << i;
    }
    EXPECT_EQ(resumed.state(), whole.state()) << "cut " << cut;
  }
}

}  // namespace
}  // namespace zeropp::zero

// ctest: name=bench_timing timeout=30 labels=sanitize
// How often something is repeated until its time is known, on cycles whose time is made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "lib/bench/timing.hpp"

namespace zeropp::bench {
namespace {

using testing::ElementsAre;

/// Iterations of each cycle that ran, where one takes `seconds`.
struct Cycles {
  double seconds;
  std::vector<std::size_t> run = {};

  Cycle cycle() {
    return [this](std::size_t iterations) {
      run.push_back(iterations);
      return seconds * static_cast<double>(iterations);
    };
  }
};

TEST(BenchTiming, WarmsUpOnceWhereAllIsFixed) {
  Cycles cycles{1e-3};
  EXPECT_EQ(warm_up({.warmups = 7, .iterations = 4, .cycles = 2}, nullptr, cycles.cycle()), 4U);
  EXPECT_THAT(cycles.run, ElementsAre(7));
  Cycles none{1e-3};
  EXPECT_EQ(warm_up({.warmups = 0, .iterations = 4, .cycles = 2}, nullptr, none.cycle()), 4U);
  EXPECT_THAT(none.run, ElementsAre());
}

TEST(BenchTiming, WarmUpsEndWithTheirNumberOrTheirTime) {
  Cycles fast{1e-5};
  EXPECT_EQ(warm_up({.warmups = 3}, nullptr, fast.cycle()), 100U);  // of a millisecond
  EXPECT_THAT(fast.run, ElementsAre(1, 1, 1));
  Cycles slow{0.15};
  EXPECT_EQ(warm_up({.warmups = 3, .seconds = 0.2}, nullptr, slow.cycle()), 1U);
  EXPECT_THAT(slow.run, ElementsAre(1, 1));
  Cycles unwanted{1e-9};  // one run says how many a cycle has
  EXPECT_EQ(warm_up({.warmups = 0, .most_iterations = 50}, nullptr, unwanted.cycle()), 50U);
  EXPECT_THAT(unwanted.run, ElementsAre(1));
}

TEST(BenchTiming, CyclesEndWhereTheMedianIsKnown) {
  Cycles even{1e-3};
  const Samples samples = take_samples({.operations = 2, .seconds = 60}, nullptr, 5, even.cycle());
  EXPECT_EQ(samples.seconds.size(), 6U);  // whose range holds the median
  EXPECT_EQ(samples.iterations, 5U);
  EXPECT_DOUBLE_EQ(samples.slowest().front(), 0.5e-3);
  Cycles later{1e-3};
  EXPECT_EQ(
      take_samples({.known_after = 20, .seconds = 60}, nullptr, 1, later.cycle()).seconds.size(),
      20U);
}

TEST(BenchTiming, CyclesEndWithTheirNumberOrTheirTime) {
  Cycles fixed{1e-3};
  EXPECT_EQ(take_samples({.cycles = 2}, nullptr, 1, fixed.cycle()).seconds.size(), 2U);
  double next = 1;
  const Cycle uneven = [&](std::size_t) { return next *= 2; };
  EXPECT_EQ(take_samples({.fewest_cycles = 4, .seconds = 1e-9}, nullptr, 1, uneven).seconds.size(),
            4U);
}

TEST(BenchTiming, TheSlowestRankOfEachCycleCounts) {
  const Samples samples{.iterations = 1, .seconds = {{1, 3, 2}, {5, 4, 1}}};
  EXPECT_THAT(samples.slowest(), ElementsAre(3, 5));
}

}  // namespace
}  // namespace zeropp::bench

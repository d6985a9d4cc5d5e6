// ctest: name=zero_bit_allocation timeout=60 labels=sanitize
// The choice of widths under a budget, against exhaustive search: never over the budget, within one
// step of the best, never worse than one width for all, and the same whenever it is asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "lib/zero/quantization/bit_allocation.hpp"

namespace zeropp::zero {
namespace {

using Units = std::vector<std::vector<BitOption>>;

std::uint64_t bytes_of(const Units& units, const std::vector<std::size_t>& choice) {
  std::uint64_t bytes = 0;
  for (std::size_t u = 0; u < units.size(); ++u) bytes += units[u][choice[u]].bytes;
  return bytes;
}
double error_of(const Units& units, const std::vector<std::size_t>& choice) {
  double error = 0;
  for (std::size_t u = 0; u < units.size(); ++u) error += units[u][choice[u]].error;
  return error;
}

/// The smallest error within the budget, over all choices; infinity where there is none.
double best_of(const Units& units, std::uint64_t budget) {
  std::vector<std::size_t> choice(units.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    if (bytes_of(units, choice) <= budget) best = std::min(best, error_of(units, choice));
    std::size_t u = 0;
    while (u < units.size() && ++choice[u] == units[u].size()) choice[u++] = 0;
    if (u == units.size()) return best;
  }
}

/// The most that one option saves of another of its unit: no step along a hull saves more.
double largest_saving(const Units& units) {
  double largest = 0;
  for (const auto& unit : units) {
    for (const BitOption& from : unit) {
      for (const BitOption& to : unit) largest = std::max(largest, from.error - to.error);
    }
  }
  return largest;
}

/// Widths of units of random sizes and scales; `like_integers`: errors fall as 4^-bits.
Units random_units(std::mt19937& random, bool like_integers) {
  std::uniform_real_distribution<double> uniform;
  Units units(1 + random() % 5);
  for (auto& unit : units) {
    const std::size_t elements = 16 * (1 + random() % 400);
    const double scale = std::exp(8 * uniform(random) - 4);
    for (std::size_t bits = 2; bits < 7; ++bits) {
      const double error = like_integers ? scale * std::pow(4.0, -static_cast<double>(bits))
                                         : scale * uniform(random);
      unit.push_back({elements * bits / 8, error});
    }
  }
  return units;
}

TEST(BitAllocation, AgainstExhaustiveSearch) {
  std::mt19937 random(11);
  std::size_t optimal = 0;
  constexpr std::size_t kTrials = 2000;
  std::size_t possible = 0;
  for (std::size_t trial = 0; trial < kTrials; ++trial) {
    const Units units = random_units(random, trial % 2 == 0);
    const std::vector<std::size_t> widest(units.size(), 4);
    const std::uint64_t budget = random() % (bytes_of(units, widest) + 200);
    const double best = best_of(units, budget);
    const auto choice = allocate_bits(units, budget);
    ASSERT_EQ(choice.has_value(), std::isfinite(best)) << "trial " << trial;
    if (!choice) continue;
    ++possible;
    EXPECT_LE(bytes_of(units, *choice), budget) << "trial " << trial;
    const double error = error_of(units, *choice);
    EXPECT_LE(error, best + largest_saving(units)) << "trial " << trial;
    optimal += error <= best * (1 + 1e-12) ? 1 : 0;
    for (std::size_t i = 0; i < 5; ++i) {
      const std::vector<std::size_t> uniform(units.size(), i);
      if (bytes_of(units, uniform) <= budget) {
        EXPECT_LE(error, error_of(units, uniform)) << "trial " << trial;
      }
    }
    EXPECT_EQ(allocate_bits(units, budget), choice);
  }
  EXPECT_GT(possible, kTrials / 2);
  EXPECT_GT(optimal, possible / 2) << "of " << possible;
}

TEST(BitAllocation, SpendsWhereErrorsAre) {
  // Equal sizes, one unit a hundred times as large in its values: it gets the bits.
  Units units(2);
  for (const double scale : {1.0, 1e4}) {
    auto& unit = units[scale > 1 ? 1 : 0];
    for (std::size_t bits = 2; bits <= 8; ++bits) {
      unit.push_back({100 * bits, scale * std::pow(4.0, -static_cast<double>(bits))});
    }
  }
  EXPECT_EQ(allocate_bits(units, 1000), (std::vector<std::size_t>{0, 6}));
  EXPECT_EQ(allocate_bits(units, 400), (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(allocate_bits(units, 399), std::nullopt);
  EXPECT_EQ(allocate_bits(units, 1'000'000), (std::vector<std::size_t>{6, 6}));
}

TEST(BitAllocation, PaysNothingForNothing) {
  // Values without errors, as of zeros, stay at the cheapest; ties go to the first unit.
  const Units zeros{{{10, 0}, {20, 0}}, {{10, 0}, {20, 0}}};
  EXPECT_EQ(allocate_bits(zeros, 1000), (std::vector<std::size_t>{0, 0}));
  const Units equal{{{10, 2}, {20, 1}}, {{10, 2}, {20, 1}}};
  EXPECT_EQ(allocate_bits(equal, 30), (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(allocate_bits({}, 0), std::vector<std::size_t>{});
}

}  // namespace
}  // namespace zeropp::zero

// Allocation of bits: chooses an option for each unit so that all of them together cost no more
// than a budget and err little. It is a multiple-choice knapsack, solved along the lower convex
// hulls of the units' options (the Lagrangian relaxation's solutions, Shoham and Gersho 1988), then
// filled up. A pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace zeropp::zero {

/// Cost and error of a unit with one option.
struct BitOption {
  std::uint64_t bytes = 0;
  double error = 0;  ///< added over units, so of squares; finite, not negative
};

/// Index of each unit's option, by unit; nothing where even the cheapest cost more than `budget`.
/// The errors add up to at most the smallest possible sum plus what one step along one unit's hull
/// saves; and to no more than where every unit takes the option of one index, for any index that
/// the budget allows all units. Ties go to the unit of the lower index, and to the cheaper option:
/// the same arguments give the same choice. Every unit has an option.
std::optional<std::vector<std::size_t>> allocate_bits(
    const std::vector<std::vector<BitOption>>& units, std::uint64_t budget);

}  // namespace zeropp::zero

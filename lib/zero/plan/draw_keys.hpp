// The keys of stochastic rounding's draws (kernels/codec/draw.hpp): what a collective of the engine
// moves, and when; and those of the optimizer's moments. The same on every rank and in every run
// with the seed; ranks and hops are told apart by the collectives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/counter_rng.hpp"

namespace zeropp::zero {

/// Key of the gathers of a unit's weights of this version: forward and backward decode the same.
inline std::uint64_t weight_draws(std::uint64_t seed, std::uint64_t version, std::size_t unit) {
  constexpr std::uint64_t kWeights = 1;
  return derived_key(derived_key(seed, kWeights, version), unit, 0);
}

/// Key of a bucket's reduction; `step` counts every step, those that are skipped included.
inline std::uint64_t gradient_draws(std::uint64_t seed, std::uint64_t step, std::size_t micro_step,
                                    std::size_t bucket) {
  constexpr std::uint64_t kGradients = 2;
  return derived_key(derived_key(seed, kGradients, step), micro_step, bucket);
}

/// Key of the moments that step t (1, 2, ...; skipped ones do not count) makes.
inline std::uint64_t moment_draws(std::uint64_t seed, std::uint64_t t) {
  constexpr std::uint64_t kMoments = 3;
  return derived_key(seed, kMoments, t);
}

/// Kinds of groups that do the same with other values: of a bucket, shard groups and sets of
/// replicas; of a unit, rails. draws_of() gives the key of one of them, among those of the bucket
/// or the unit.
enum class Group : std::uint64_t { shards = 1, replicas = 2, rails = 3 };
inline std::uint64_t draws_of(std::uint64_t draws, Group group, int number) {
  return derived_key(draws, static_cast<std::uint64_t>(group), static_cast<std::uint64_t>(number));
}

}  // namespace zeropp::zero

// Draws of stochastic rounding (kernels/codec/draw.hpp) in a collective, and how they are told
// apart: a run has a key; each rank has one of its own below it for every hop, and a value the
// number of its part and of its place in the part. So draws are independent over ranks, hops and
// runs, and do not depend on chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/draw.hpp"
#include "kernels/core/counter_rng.hpp"

namespace zeropp::collective {

/// Numbers that each part has; no part has as many values.
inline constexpr std::uint64_t kPartNumbers = std::uint64_t{1} << 40U;

/// The hop of an all-gather, which may follow a reduction with the same key.
inline constexpr std::uint64_t kGatherHop = std::uint64_t{1} << 32U;

/// Draw for the values that rank `source` encodes on `hop`: value `element` of part `part` and
/// those that follow.
inline codec::Draw draw_of(std::uint64_t key, std::uint64_t hop, std::size_t source,
                           std::size_t part, std::size_t element) {
  return {derived_key(key, hop, source), part * kPartNumbers + element, kPartNumbers, kPartNumbers};
}

}  // namespace zeropp::collective

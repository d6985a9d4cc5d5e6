// Cut of the parts of a reduce-scatter: chunks, padded to blocks on the wire. It is a closed form
// that runners and descriptions share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "lib/base/checked.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/collective/plan.hpp"
#include "lib/collective/traits.hpp"

namespace zeropp::collective {

struct ReduceCut {
  /// `largest_block`: of the codecs.
  ReduceCut(const ReduceScatterPlan& plan, const Traits& traits, std::size_t largest_block)
      : count(plan.parts.count),
        block(largest_block),
        chunks(chunk_plan(count, traits.uncut ? 1 : plan.depth, block)) {}

  /// Values of a chunk on the wire; the padded chunks add up to the padded part.
  [[nodiscard]] std::size_t padded(const Chunk& chunk) const {
    return round_up(chunk.length, block);
  }
  [[nodiscard]] std::size_t padded_part() const { return round_up(count, block); }
  [[nodiscard]] Chunk longest_chunk() const {
    Chunk longest;
    for (const Chunk& chunk : chunks) longest.length = std::max(longest.length, chunk.length);
    return longest;
  }

  std::size_t count;
  std::size_t block;  ///< that parts are padded to
  std::vector<Chunk> chunks;
};

}  // namespace zeropp::collective

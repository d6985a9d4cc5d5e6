// Chunks of the parts of a reduce-scatter, padded to blocks on the wire. They are a closed form
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

class ReduceChunks {
 public:
  /// `largest_block`: of the codecs.
  ReduceChunks(const ReduceScatterPlan& plan, const Traits& traits, std::size_t largest_block)
      : count_(plan.parts.count),
        block_(largest_block),
        chunks_(chunk_plan(count_, traits.one_chunk ? 1 : plan.depth, block_)) {}

  [[nodiscard]] auto begin() const { return chunks_.begin(); }
  [[nodiscard]] auto end() const { return chunks_.end(); }
  [[nodiscard]] std::size_t size() const { return chunks_.size(); }
  [[nodiscard]] Chunk longest() const {
    Chunk longest;
    for (const Chunk& chunk : chunks_) longest.length = std::max(longest.length, chunk.length);
    return longest;
  }
  /// Values of a chunk on the wire; the padded chunks add up to the padded part.
  [[nodiscard]] std::size_t padded(const Chunk& chunk) const {
    return round_up(chunk.length, block_);
  }
  [[nodiscard]] std::size_t padded_part() const { return round_up(count_, block_); }

 private:
  std::size_t count_;  ///< values of a part
  std::size_t block_;  ///< that parts are padded to
  std::vector<Chunk> chunks_;
};

}  // namespace zeropp::collective

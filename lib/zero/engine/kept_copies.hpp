// The copies of the weights in a checkpoint, which weight differences are added to: of every unit
// that has one "UNIT/copy/DTYPE", as padded, and on rank 0 the version of the weights that they
// follow, "copy_version". Each rank keeps the piece of its own shard, and reads those of its rail
// or, at stages 1 and 2, all. Owns nothing; copies on the compute stream. Throws Error(io) with
// files.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/kept_slice.hpp"
#include "lib/zero/engine/rank_memory.hpp"

namespace zeropp::zero {

class KeptCopies {
 public:
  /// References outlive this.
  KeptCopies(const EngineContext& context, RankMemory& memory)
      : context_(context), memory_(memory) {}

  /// What this rank keeps; nothing without weight differences.
  [[nodiscard]] std::vector<KeptSlice> slices() const;
  /// Reads the saved copies, after the progress of the run. False, and whole weights go to them
  /// first, where `has` does not know them.
  bool restore(const HasSlice& has, const ReadSlice& read);

 private:
  /// Shards of a unit that the own part of its copy has: one of each node's or, at stages 1 and 2,
  /// of each rank's; 0 of a unit without a copy.
  [[nodiscard]] std::size_t pieces(std::size_t unit) const;
  /// Piece `number` of them.
  [[nodiscard]] checkpoint::Slice slice(std::size_t unit, std::size_t number) const;
  [[nodiscard]] View piece(std::size_t unit, std::size_t number) const;

  const EngineContext& context_;
  RankMemory& memory_;
};

}  // namespace zeropp::zero

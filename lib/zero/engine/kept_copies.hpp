// The copies of the weights that weight differences are added to, in a checkpoint. Every unit with
// a copy has an array "UNIT/copy/DTYPE" of UnitPartition::padded elements, and "copy_version" is
// the version of the weights that the copies hold. Each rank saves the piece of its own shard, rank
// 0 the version too; a rank reads the pieces of its rail or, at stages 1 and 2, all pieces. Owns
// nothing; copies on the compute stream. Throws Error(io) where a file cannot be read or written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/checkpoint/manifest.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/rank_memory.hpp"

namespace zeropp::zero {

/// A slice of a checkpoint, and how its values come to the host's memory.
struct KeptSlice {
  checkpoint::Slice slice;
  std::function<void(std::span<std::byte> to)> read;
};

/// Fills host memory with a slice of saved arrays. Throws Error(io).
using ReadSlice = std::function<void(const checkpoint::Slice&, std::span<std::byte>)>;
/// Whether there is such an array among the saved ones.
using HasSlice = std::function<bool(const checkpoint::Slice&)>;

class KeptCopies {
 public:
  /// References outlive this.
  KeptCopies(const EngineContext& context, RankMemory& memory)
      : context_(context), memory_(memory) {}

  /// Slices that this rank saves; none without weight differences.
  [[nodiscard]] std::vector<KeptSlice> slices() const;
  /// Reads the saved copies. Called when the run's progress is that of the checkpoint. Returns
  /// false where `has` does not know one of the arrays: none is read then, and the next step sends
  /// whole weights to the copies.
  bool restore(const ReadSlice& read, const HasSlice& has);

 private:
  /// Number of shards in this rank's part of a unit's copy: one for each node or, at stages 1 and
  /// 2, for each rank; 0 where the unit has no copy.
  [[nodiscard]] std::size_t pieces(std::size_t unit) const;
  /// Place of shard `number` of this rank's part in the unit's array.
  [[nodiscard]] checkpoint::Slice slice(std::size_t unit, std::size_t number) const;
  /// Memory of shard `number` of this rank's part.
  [[nodiscard]] View piece(std::size_t unit, std::size_t number) const;
  /// Version of the weights that the copies hold.
  [[nodiscard]] std::uint64_t& held_version() const;

  const EngineContext& context_;
  RankMemory& memory_;
};

}  // namespace zeropp::zero

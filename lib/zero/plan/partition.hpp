// Partition of a unit's flat buffer. It is cut into N canonical shards, of which a rank holds one,
// or, where only the ranks of a shard group share a copy, as many in a row as there are groups; and
// with hpZ into H secondary shards. Pure functions. Source: ZeRO++ section 3.2 (hierarchical
// partitioning); sizes as the trace format documents them.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/core/dtype.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// Consecutive elements of a flat buffer.
struct Extent {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// Element counts of one unit.
struct UnitPartition {
  std::size_t parameters = 0;  ///< without alignment
  std::size_t flat = 0;        ///< with tensor alignment
  std::size_t shard = 0;       ///< a rank's part: canonical * shard groups
  std::size_t padded = 0;      ///< N * canonical
  std::size_t secondary = 0;   ///< padded / H; 0 without hpZ
  /// Pieces of a secondary shard, each gathered apart: one, or what rail_copies() says.
  std::size_t secondary_pieces = 1;
  Dtype secondary_dtype = Dtype::fp32;  ///< dtype of the secondary shard
  bool secondary_on_host = false;       ///< the secondary shard lies in the host's memory
  std::size_t canonical = 0;  ///< ceil(flat / N), rounded up to 16 bytes of the compute dtype, and
                              ///< to what Options::shard_multiple asks for
  bool persistent = false;    ///< stage 3: whole on every rank, gathered after each step
  Dtype gradients = Dtype::fp32;  ///< dtype of the unit's gradients until they are reduced
  /// Elements that no tensor covers: between tensors, and from the last one to `padded`. Their
  /// gradients are reduced and counted in norms like any other, so they have to be zero.
  std::vector<Extent> gaps{};
};

/// Cuts all units. `partition_size` is H: 1 for none; divides world_size, as `shard_groups` does.
/// `multiple`: of elements, that shards are; a power of two.
std::vector<UnitPartition> partition_units(const std::vector<Unit>& units, std::size_t world_size,
                                           std::size_t partition_size, Dtype compute,
                                           std::size_t shard_groups = 1, std::size_t multiple = 1);

/// Part of every unit that a rank's optimizer updates: its shard from stage 1 on, at stage 0 all of
/// it.
struct OwnedShard {
  bool sharded = false;
  std::size_t rank = 0;  ///< number among the ranks that share a copy of the weights

  /// Element of the unit's flat buffer at which it begins.
  [[nodiscard]] constexpr std::size_t begin(const UnitPartition& unit) const {
    return sharded ? rank * unit.shard : 0;
  }
};

/// Marks the units that stay whole at stage 3: in order, those of at most `threshold` parameters,
/// while they have at most `model_threshold` together. They have no secondary shard.
void mark_persistent(std::vector<UnitPartition>& units, std::size_t threshold,
                     std::size_t model_threshold);

/// Makes the secondary shard of each rank the shards of its rail (the ranks with its number in all
/// of the `nodes`), kept as `dtype`: what a rank sends along its rail goes to where it is kept, and
/// a rank keeps its own shard. Nodes may have one rank. Piece k is the shard of the rail's rank in
/// node k, so that the pieces k of a node's ranks lie in a row in the flat buffer.
void rail_copies(std::vector<UnitPartition>& units, std::size_t nodes, Dtype dtype);

/// Whether the secondary shards lie in the host's memory, whatever the back end.
bool copies_on_host(const std::vector<UnitPartition>& units);

/// The canonical shard that rank `rank` answers for: of the `shard_groups` in the part that it
/// holds, the one with its group's number.
constexpr std::size_t canonical_shard(std::size_t rank, std::size_t world_size,
                                      std::size_t shard_groups) {
  const std::size_t group_size = world_size / shard_groups;
  return rank % group_size * shard_groups + rank / group_size;
}

/// One sub-range of a unit's shard, the same on every rank.
struct Segment {
  std::size_t unit = 0;
  std::size_t offset = 0;  ///< elements from the shard's begin
  std::size_t count = 0;   ///< elements of every rank's part
};

/// Whether a segment is the last of its unit's shard: earlier buckets hold the rest.
constexpr bool ends_shard(const Segment& segment, const UnitPartition& unit) {
  return segment.offset + segment.count == unit.shard;
}

/// Gradients that are reduced in one collective: segments, one after the other.
struct Bucket {
  std::vector<Segment> segments;
  [[nodiscard]] std::size_t count() const;  ///< elements of every rank's part
};

/// Elements of a bucket's shard that one rank of each of the `shard_groups` adds up: an equal part
/// of the shard, rounded up to 16 bytes of the compute dtype.
std::size_t replica_part(const Bucket& bucket, std::size_t shard_groups, Dtype compute);

/// First layer that uses each unit, by unit: where backward finishes its gradient.
std::vector<std::size_t> first_layers(const std::vector<Layer>& layers, std::size_t unit_count);

/// Units in the order in which backward finishes their gradients: after a unit's last use there.
std::vector<std::size_t> gradient_order(const std::vector<Layer>& layers, std::size_t unit_count);

/// Reductions whose memory is in use at once: while one crosses nodes, the next is inside its node.
inline constexpr std::size_t kReductionsInFlight = 2;

inline constexpr std::size_t kEnoughForBucket = std::size_t{1} << 24U;  ///< over all ranks

/// Elements of every rank's part that a bucket of `bucket_size` elements holds at most: a multiple
/// of `quantum` (8 codec blocks), at least one.
std::size_t bucket_capacity(std::size_t bucket_size, std::size_t world_size, std::size_t quantum);

/// Fills buckets of at most `bucket_size` elements (over the `world_size` ranks that share a copy)
/// with units in `order`: a shard joins the open bucket while it fits, else the bucket is closed
/// first; a shard that no bucket can hold is cut. A rank's part is bucket_capacity(). A bucket that
/// holds kEnoughForBucket elements takes no further unit: its messages are long, and one unit alone
/// is reduced where it lies. `groups`, by unit: units of different groups share no bucket; empty:
/// all may, with gradients of one dtype.
std::vector<Bucket> make_buckets(const std::vector<UnitPartition>& units,
                                 const std::vector<std::size_t>& order, std::size_t world_size,
                                 std::size_t bucket_size, std::size_t quantum,
                                 const std::vector<std::size_t>& groups = {});

}  // namespace zeropp::zero

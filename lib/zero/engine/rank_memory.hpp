// Memory that a rank holds of every unit from step to step, besides the optimizer's arrays, and the
// arena in which everything lives that a step makes and drops (ZeRO, arXiv 1910.02054, section 5).
// Made once, by the engine, which owns it; the parts of an engine share it by reference. Buffers
// begin as zeros and keep their addresses. A list has a buffer for each unit: the buffer of a unit
// without this memory is empty, and where no unit has any, so is the list. Elements are counted as
// UnitPartition counts them. The schedule says who writes what, on which stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/comm/groups.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/engine/secondary_partition.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

struct RankMemory {
  /// `plan` outlives this. Throws Error(environment) when there is no memory.
  RankMemory(const Options& options, const RankPlan& plan, const comm::Groups& groups,
             const Device& device);

  /// Arena of whole gathered weights, whole gradients, sums and workspace: at offsets of the
  /// schedule.
  Buffer arena;
  /// The own shards that weights are gathered from, in the compute dtype, where the master itself
  /// is not gathered. The buffer of a unit whose weights lie in a file is empty.
  std::vector<Buffer> compute_shards;
  /// Whole weights, in the compute dtype, of the units that are not gathered for each use.
  std::vector<Buffer> resident_weights;
  /// Whole gradients in fp32, where they are not sharded (stages 0 and 1).
  std::vector<Buffer> local_gradients;
  /// The own shards of the gradients in fp32, from stage 1 on: sums over ranks and micro-steps.
  /// Where units are updated during backward they take turns in these buffers, which are then the
  /// slabs of GradientSlabs.
  std::vector<Buffer> gradient_shards;
  std::optional<SecondaryPartition> secondary;  ///< with hpZ

  // Views that operations leave to those after them, by unit.
  std::vector<ConstView> weights;  ///< whole, padded, compute dtype: gathered or resident
  std::vector<View> gradients;     ///< whole, padded, of UnitPartition::gradients
  std::vector<bool> is_fresh;      ///< no backward has written the gradients yet

  /// Gradients, by unit, that this rank's optimizer steps with: UnitPartition::shard elements, or
  /// at stage 0 UnitPartition::padded. They are fp32 sums over ranks and micro-steps, at the same
  /// addresses in every step.
  [[nodiscard]] std::vector<View> own_gradients() const;
  /// The weights in the compute dtype that are rounded from the master after each update: the own
  /// shard, or at stage 0 the whole unit. Empty where the master itself is gathered.
  [[nodiscard]] View compute_shard(std::size_t unit) const;
  /// The whole weights of a unit that is not gathered for each use: UnitPartition::padded elements
  /// of the compute dtype.
  [[nodiscard]] View resident(std::size_t unit) const;
  /// This rank's part of the copy of a unit's weights that weight differences are added to: the
  /// secondary shard, which has the shards of the rail's ranks one after the other, or at stages 1
  /// and 2 the resident weights, which have those of all ranks. In UnitPartition::secondary_dtype;
  /// empty where the unit has no copy.
  [[nodiscard]] View copy(std::size_t unit) const;
  /// The own shard of a unit's gradients, from stage 1 on: UnitPartition::shard elements, fp32.
  [[nodiscard]] View gradient_shard(std::size_t unit) const;
  /// The elements of gradient_shard() that a bucket's segment has: Segment::count, fp32.
  [[nodiscard]] View gradient_shard(const Segment& segment) const;

  // Memory in the arena that the schedule has given an operation.

  /// Memory that a unit's whole weights are gathered to: UnitPartition::padded elements of the
  /// compute dtype.
  [[nodiscard]] View gathered(const Op& op) const;
  /// Memory of a unit's whole gradients: UnitPartition::padded elements of
  /// UnitPartition::gradients. At stages 0 and 1 it is that of local_gradients, fp32, instead of
  /// the arena's.
  [[nodiscard]] View whole_gradients(const Op& op) const;
  /// Memory that a bucket's sum over the ranks arrives in: Bucket::count() elements, fp32, in the
  /// arena, or the gradient shard itself.
  [[nodiscard]] View sum(const Op& op) const;
  /// Image in the arena, BucketMemory::replica_image bytes, that lasts between the two halves of a
  /// sum over shard groups. The span ends with the arena.
  [[nodiscard]] std::span<std::byte> replica_image(const Op& op) const;
  /// Memory that an operation borrows until it has ended, of an update until its unit's refresh
  /// has; empty where it needs none. The span ends with the arena.
  [[nodiscard]] std::span<std::byte> workspace(const Op& op) const;

 private:
  const RankPlan& plan_;
  StagePreset preset_;
  Dtype compute_;
};

}  // namespace zeropp::zero

// Memory that a rank holds of every unit from step to step, besides the optimizer's arrays, and the
// arena in which everything lives that a step makes and drops (ZeRO, arXiv 1910.02054, section 5).
// Made once, by the engine, which owns it; the parts of an engine share it by reference. Buffers
// begin as zeros and stay where they are; lists of buffers are by unit, a buffer is empty where the
// unit has none, a list where no unit has any. Elements are counted as UnitPartition counts them.
// Who writes what on which stream is the schedule's order.
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
  /// The own shards of the weights that are gathered, in the compute dtype, with offload: elsewhere
  /// the master is gathered. Empty of units whose weights lie in a file.
  std::vector<Buffer> compute_shards;
  /// Whole weights, in the compute dtype, of the units that are not gathered for each use.
  std::vector<Buffer> resident_weights;
  /// Whole gradients in fp32, where they are not sharded (stages 0 and 1).
  std::vector<Buffer> local_gradients;
  /// The own shards of the gradients in fp32, from stage 1 on: sums over ranks and micro-steps. By
  /// unit, but for units that are updated during backward, which share GradientSlabs.
  std::vector<Buffer> gradient_shards;
  std::optional<SecondaryPartition> secondary;  ///< with hpZ

  // Views that operations leave to those after them, by unit.
  std::vector<ConstView> weights;  ///< whole, padded, compute dtype: gathered or resident
  std::vector<View> gradients;     ///< whole, padded, of UnitPartition::gradients
  std::vector<bool> is_fresh;      ///< no backward has written the gradients yet

  /// Gradients, by unit, that this rank's optimizer steps with: its shards, or everything at stage
  /// 0. They are fp32 sums over ranks and micro-steps, at the same addresses in every step.
  [[nodiscard]] std::vector<View> own_gradients() const;
  /// The weights in the compute dtype that follow the master: the own shard, or everything at stage
  /// 0. Empty where the master itself serves.
  [[nodiscard]] View compute_shard(std::size_t unit) const;
  [[nodiscard]] View resident(std::size_t unit) const;
  /// The part of a unit's copy that weight differences are added to which this rank holds: its
  /// secondary shard or, at stages 1 and 2, the resident weights. Shards of the rail's ranks, or of
  /// all ranks, one after the other, in UnitPartition::secondary_dtype; empty of a unit without
  /// one.
  [[nodiscard]] View copy(std::size_t unit) const;
  [[nodiscard]] View gradient_shard(std::size_t unit) const;
  [[nodiscard]] View gradient_shard(const Segment& segment) const;

  // Memory in the arena that the schedule has given an operation.
  [[nodiscard]] View gathered(const Op& op) const;
  [[nodiscard]] View whole_gradients(const Op& op) const;
  /// Memory that a bucket's sum over the ranks arrives in: in the arena, or the gradient shard
  /// itself.
  [[nodiscard]] View sum(const Op& op) const;
  /// Image in the arena that lasts between the two halves of a sum over shard groups.
  [[nodiscard]] std::span<std::byte> image(const Op& op) const;
  [[nodiscard]] std::span<std::byte> workspace(const Op& op) const;

 private:
  const RankPlan& plan_;
  StagePreset preset_;
  Dtype compute_;
};

}  // namespace zeropp::zero

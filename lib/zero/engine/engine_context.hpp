// References that the parts of an engine work with: the engine owns or was given all that they
// name, all of it is made before the context, and it outlives the parts. Owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/comm/groups.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/communication/gradient_reduce.hpp"
#include "lib/zero/communication/weight_collectives.hpp"
#include "lib/zero/engine/executor.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// Counts of steps, which an engine keeps up and a checkpoint saves.
struct StepCounts {
  std::uint64_t taken = 0;  ///< the optimizer's t
  std::uint64_t begun = 0;  ///< steps that were taken or skipped
};

struct Progress {
  StepCounts steps;
  /// Version of the weights, which every step that is taken increments; restoring a run sets it.
  std::uint64_t version = 1;
  /// Version of the weights that the secondary shards hold; 0: none, or in another codec.
  std::uint64_t secondary = 0;
  /// Version of the weights that the resident weights hold whole; 0: none. Before a step and an
  /// evaluation they are brought to `version` where they hold another.
  std::uint64_t resident = 0;
};

/// The collectives of a run.
struct Collectives {
  WeightCollectives weights;
  GradientReduce gradients;
};

struct EngineContext {
  const Options& options;  ///< resolved: no "auto"
  StagePreset preset;
  UnitModel& model;
  comm::Groups& groups;         ///< groups that weights are gathered in
  comm::Groups& reduce_groups;  ///< groups, of the same ranks, that gradients are reduced in
  comm::Control& control;
  const ComputeDevice& device;
  trace::Recorder& recorder;
  RankPlan& plan;
  Collectives& collectives;
  const Executor& executor;
  Progress& progress;

  [[nodiscard]] const std::vector<UnitPartition>& units() const { return plan.units; }
  [[nodiscard]] const Stream& compute() const { return executor.compute(); }
  [[nodiscard]] std::size_t world_size() const {
    return static_cast<std::size_t>(groups.world->size());
  }
  /// Number of groups of ranks that share a copy of everything; 1 where all ranks share one.
  [[nodiscard]] std::size_t shard_groups() const {
    return groups.replicas ? static_cast<std::size_t>(groups.replicas->size()) : 1;
  }
  /// Number of this rank among the ranks that share a copy of the weights.
  [[nodiscard]] std::size_t shard_rank() const {
    return static_cast<std::size_t>(groups.sharding().world->rank());
  }
  /// Number of the own shard among the `pieces` that a copy of a unit has one after the other: the
  /// shards of all ranks that share the weights, or of the rail.
  [[nodiscard]] std::size_t own_piece(std::size_t pieces) const {
    return shard_rank() * pieces / static_cast<std::size_t>(groups.sharding().world->size());
  }
  /// The part of every unit that this rank's optimizer updates.
  [[nodiscard]] OwnedShard owned() const { return {preset.shard_optimizer, shard_rank()}; }
  /// The canonical shard that this rank answers for, at every stage.
  [[nodiscard]] std::size_t canonical() const {
    return canonical_shard(static_cast<std::size_t>(groups.world->rank()), world_size(),
                           shard_groups());
  }
};

}  // namespace zeropp::zero

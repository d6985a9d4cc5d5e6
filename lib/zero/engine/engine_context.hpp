// References that the parts of an engine work with: the engine owns or was given all that they
// name, and it outlives the parts. Owns nothing.
#pragma once

#include <cstddef>

#include "lib/comm/groups.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/communication/gradient_reduce.hpp"
#include "lib/zero/communication/weight_exchange.hpp"
#include "lib/zero/communication/weight_gather.hpp"
#include "lib/zero/engine/executor.hpp"
#include "lib/zero/engine/progress.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

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
  WeightGather& weight_gather;
  WeightExchange& weight_exchange;
  GradientReduce& gradient_reduce;
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
  /// The part of every unit that this rank's optimizer updates.
  [[nodiscard]] OwnedShard owned() const { return {preset.shard_optimizer, shard_rank()}; }
  /// The canonical shard that this rank answers for, at every stage.
  [[nodiscard]] std::size_t canonical() const {
    return canonical_shard(static_cast<std::size_t>(groups.world->rank()), world_size(),
                           shard_groups());
  }
};

}  // namespace zeropp::zero

// Bytes that a schedule moves and that the engine's state takes: folds over the schedule and closed
// forms over the partition. Pure functions; bytes are of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/optim/moments.hpp"
#include "lib/comm/traffic.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

/// Bytes that this rank sends in one run of each collective.
struct Volumes {
  std::vector<comm::Bytes> gather;                ///< by unit
  std::vector<comm::Bytes> gather_secondary;      ///< by unit
  std::vector<comm::Bytes> exchange;              ///< by unit; with weight differences at stage 3
  std::vector<comm::Bytes> refresh;               ///< by unit; of updated weights
  std::vector<comm::Bytes> reduce;                ///< by bucket
  std::vector<comm::Bytes> gather_sum;            ///< by bucket
  std::vector<comm::Bytes> reduce_over_replicas;  ///< by bucket; of several shard groups
  std::vector<comm::Bytes> gather_over_replicas;  ///< by bucket; of several shard groups
};

/// Bytes that this rank sends in one run of `op`.
comm::Bytes volume(const Op& op, const Volumes& volumes);
/// Bytes that this rank sends in one execution of `schedule`.
comm::Bytes volume(const Schedule& schedule, const Volumes& volumes);

/// State that outlives a step, and the arena.
struct MemoryPart {
  std::string name;
  std::size_t bytes;
};

/// Memory of the engine's state in closed form, in the order: master, moments, gradient shard,
/// compute shard, resident weights, local gradients, secondary; then what lies in the memory of the
/// host: the secondary shards that do, with offload master, moments, staging, and with offloaded
/// parameters the weights and the buffers that weights in files are read to. Parts of zero bytes
/// are included.
/// `kept`: what the optimizer keeps for a parameter; shards are what its blocks need. `slabs`:
/// enabled, the gradient shards of all units lie there.
std::vector<MemoryPart> state_memory(const std::vector<UnitPartition>& units,
                                     const StagePreset& preset, Dtype compute,
                                     const optim::Kept& kept,
                                     const OffloadOptimizerOptions& offload = {},
                                     const OffloadParamOptions& offload_param = {},
                                     const GradientSlabs& slabs = {});

/// Whether a part of that name lies in the memory of the host, whatever the back end.
bool is_offloaded(std::string_view part);

}  // namespace zeropp::zero

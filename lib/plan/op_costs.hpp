// Time of each operation of a run's schedule on a cluster: layers, collectives, the optimizer. The
// schedule, its buckets and its partition are those that the engine executes; only durations are
// made here. Pure functions; seconds.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/plan/cluster.hpp"
#include "lib/plan/simulate.hpp"
#include "lib/plan/workload.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::plan {

/// Bytes of hpZ's secondary shards that an operation moves over the GPU's link to the host, where
/// they lie there: out of the host or into it. A copy comes to the GPU, a difference is added, and
/// the sum goes back; `whole_weights` only go to the host.
double copied_over_link(const zero::Op& op, const std::vector<zero::UnitPartition>& units,
                        bool whole_weights);

/// By operation of `schedule`, which is made of work.input. Collectives of one size are costed
/// once. Throws Error(usage) for a model that is no transformer, and for offload to what the
/// cluster says nothing of.
std::vector<OpCost> op_costs(const zero::Schedule& schedule, const Workload& work,
                             const Cluster& cluster);

/// How operations share the cluster's resources: gathers and reductions have rail lanes of their
/// own.
Sharing sharing(const Cluster& cluster, std::size_t rail_lanes);

}  // namespace zeropp::plan

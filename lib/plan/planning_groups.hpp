// The groups of one rank of a job that is not there: ranks, sizes and links as World::make_groups()
// would make them, for planning collectives. They move nothing: starting a collective on them is a
// programming error and throws std::logic_error.
#pragma once

#include <cstddef>

#include "lib/comm/topology.hpp"
#include "lib/comm/world.hpp"

namespace zeropp::plan {

/// `nodes` of `ranks_per_node` each. Throws Error(usage) for a size of 0, or more ranks than there
/// are numbers for.
comm::Topology planned_topology(std::size_t nodes, std::size_t ranks_per_node);

/// Of rank `rank`: world, node, rail, where `secondary_size` > 1 its hpZ group, and where
/// `shard_size` > 0 its shard group and replicas. `topology` is uniform. For Device::planning().
comm::Groups planning_groups(const comm::Topology& topology, int rank, std::size_t secondary_size,
                             std::size_t shard_size);

}  // namespace zeropp::plan

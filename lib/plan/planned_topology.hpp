// The topology of a job that is not there.
#pragma once

#include <cstddef>

#include "lib/comm/topology.hpp"

namespace zeropp::plan {

/// `nodes` of `ranks_per_node` each. Throws Error(usage) for a size of 0, or more ranks than there
/// are numbers for.
comm::Topology planned_topology(std::size_t nodes, std::size_t ranks_per_node);

}  // namespace zeropp::plan

// Contents of the registries, as the configuration needs to know them.
#pragma once

#include "lib/app/gpus.hpp"
#include "lib/comm/topology.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::app {

/// The machine that a configuration is resolved against: this topology, these GPUs, and every
/// registered algorithm, model and token source.
config::Machine machine_of(const comm::Topology& topology, const GpuPlacement& gpus = {});

}  // namespace zeropp::app

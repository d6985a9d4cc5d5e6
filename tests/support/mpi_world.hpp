// The World of a test that runs under mpirun, and the device that it runs on: the host, or, in the
// entries named PROGRAM.cuda-TRANSPORT.npN, GPUs.
#pragma once

#include <vector>

#include "lib/comm/world.hpp"
#include "lib/device/device.hpp"

namespace zeropp::test {

/// World, device and transport of the test, made by mpi_main; valid while the tests run.
comm::World& world();
const Device& device();
comm::Transport transport();

/// Node sizes that divide the world, ascending.
std::vector<int> node_sizes();

/// Groups on the test's device and transport.
inline comm::Groups make_groups(comm::GroupOptions options = {}) {
  options.device = device();
  options.transport = transport();
  return world().make_groups(options);
}

/// Sets the topology, then returns groups for it that were made once and live until the tests end:
/// NCCL takes a second to start a group. `copy`: groups of the same ranks, but others. Not for
/// tests of making and ending groups.
comm::Groups& kept_groups(int node_size, const comm::GroupOptions& options, int copy = 0);

}  // namespace zeropp::test

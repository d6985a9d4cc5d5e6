// NCCL communicators, for device memory with one GPU a rank. A build without CUDA has none
// (cuda_absent.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/device/device.hpp"

namespace zeropp::comm {

/// Routes of a group's bytes.
struct NcclRoutes {
  std::size_t lanes = 1;  ///< communicators that share messages to other nodes (lanes.hpp)
  /// Equal pieces travel inside a node by copy engines, where both ends lie in registered memory.
  bool copy_engines = false;
};

/// Whether this NCCL moves bytes by the GPUs' copy engines, where GPUs reach each other's memory.
bool nccl_has_copy_engines();

/// Whether NCCL may use InfiniBand verbs on this rank: it has an adapter, and NCCL's environment
/// variables do not forbid it. The second function says so of copy engines, which need GPUs that
/// NVLink joins.
bool nccl_can_take_rdma();
bool nccl_can_take_copy_engines();

/// Copies the bytes of a group's rank 0 to its other ranks, which all call it.
using FromFirstRank = std::function<void(std::span<std::byte> bytes)>;

/// A communicator of a group; every rank of it calls this, with the same `routes`. `device` is the
/// current GPU of the process. Throws Error(environment) with the remedy; where other ranks do not
/// come, the watchdog ends the job (lib/comm/watchdog.hpp).
std::unique_ptr<Communicator> make_nccl_communicator(Membership member, const Device& device,
                                                     const NcclRoutes& routes,
                                                     const FromFirstRank& from_first_rank);

}  // namespace zeropp::comm

// Choice of the GPU that a rank takes, whether every rank can have one for itself, and what NCCL
// has between nodes. The answer is computed from the GPUs that all ranks see, so that it is the
// same on every rank.
#pragma once

#include <string>
#include <vector>

#include "lib/comm/world.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp::app {

/// GPUs that one rank sees.
struct VisibleGpus {
  std::string host;
  std::vector<std::string> uuids;  ///< in the driver's order
  bool rdma = false;               ///< NCCL can take InfiniBand or RoCE here
  bool copy_engines = false;       ///< NCCL can let these GPUs copy into each other's memory
};

struct GpuPlacement {
  std::vector<int> index;   ///< by rank: the GPU that it takes of those that it sees; -1: sees none
  bool every_rank = false;  ///< every rank sees a GPU
  bool rdma = false;        ///< every rank can take InfiniBand or RoCE: NCCL takes no sockets
  bool copy_engines = false;  ///< every rank can take copy engines
  bool own = false;           ///< every rank has a GPU that no other rank takes
  std::string problem;        ///< unless `own`: what is missing, where, and the remedy
  std::string warning;        ///< empty, or what costs speed, and the remedy
};

/// A pure function. On each host rank i of the ranks there takes GPU i modulo those that it sees.
GpuPlacement place_on_gpus(const std::vector<VisibleGpus>& by_rank);

/// Collective: every rank tells what it sees. After set_topology().
GpuPlacement find_gpus(comm::World& world);

}  // namespace zeropp::app

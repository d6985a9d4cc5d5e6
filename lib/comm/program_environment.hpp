// Variables of the environment that CUDA and NCCL read once, set for a program of ours; what the
// user has set stays. The library of the C interface runs in processes of others, whose environment
// it leaves alone: it does not have this file.
#pragma once

namespace zeropp::comm {

/// Call it first in a process: CUDA's driver reads its environment when it starts.
void set_cuda_environment();

/// Node of this rank, for the routes that NCCL may choose.
struct NcclNode {
  int node = 0;
  bool emulated = false;  ///< nodes are declared: routes inside the machine may not cross them
  bool one_host = false;  ///< all ranks share one machine
};

/// Call it before the first communicator of NCCL: NCCL_NVLS_ENABLE=0, and with emulated nodes
/// NCCL_HOSTID by node (neither shared memory nor peer-to-peer copies cross them) and, on one
/// machine, NCCL_SOCKET_IFNAME=lo. Variables that are set already stay, so that only the first call
/// of a process has an effect.
void set_nccl_environment(const NcclNode& node);

}  // namespace zeropp::comm

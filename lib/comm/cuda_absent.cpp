// Functions of lib/comm/cuda for a build without CUDA.
#include "lib/base/error.hpp"
#include "lib/comm/nccl.hpp"

namespace zeropp::comm {

bool nccl_has_copy_engines() { return false; }
bool nccl_can_take_rdma() { return false; }
bool nccl_can_take_copy_engines() { return false; }

std::unique_ptr<Communicator> make_nccl_communicator(Membership, const Device&, const NcclRoutes&,
                                                     const FromFirstRank&) {
  throw Error(ExitCode::environment, no_gpu_reason());
}

}  // namespace zeropp::comm

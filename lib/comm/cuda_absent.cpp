// Stands for lib/comm/cuda in a build without CUDA.
#include "lib/base/error.hpp"
#include "lib/comm/nccl.hpp"

namespace zeropp::comm {

bool nccl_has_copy_engines() { return false; }

std::unique_ptr<Communicator> make_nccl_communicator(std::string, CommHandle,
                                                     std::vector<LinkClass>, const Device&,
                                                     const NcclPlace&, const NcclRoutes&) {
  throw Error(ExitCode::environment, no_gpu_reason());
}

}  // namespace zeropp::comm

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

#include "lib/device/runtime.hpp"

namespace zeropp {

std::string cuda_versions() {
  const auto text = [](int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  };
  int runtime = 0;
  int driver = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDriverGetVersion(&driver);
  const int nccl = nccl_version();
  return "CUDA runtime " + text(runtime) + ", driver " + (driver == 0 ? "none" : text(driver)) +
         ", NCCL " + std::to_string(nccl / 10000) + "." + std::to_string(nccl / 100 % 100) + "." +
         std::to_string(nccl % 100);
}

int nccl_version() {
  int version = 0;
  (void)ncclGetVersion(&version);
  return version;
}

}  // namespace zeropp

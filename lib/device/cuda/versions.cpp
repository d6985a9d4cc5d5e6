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
  return "CUDA runtime " + text(runtime) + ", driver " + (driver == 0 ? "none" : text(driver)) +
         ", NCCL " + nccl_version_text(nccl_version());
}

int nccl_version() {
  int version = 0;
  (void)ncclGetVersion(&version);
  return version;
}

}  // namespace zeropp

// Functions of lib/device/cuda for a build without CUDA.
#include "lib/base/error.hpp"
#include "lib/device/range.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp {

const Runtime* cuda_runtime() { return nullptr; }
std::vector<GpuInfo> visible_gpus() { return {}; }
bool nvlink_joins_gpus() { return false; }
std::string no_gpu_reason() {
  return "no GPU can be used: this build has no CUDA; configure with -DZEROPP_ENABLE_CUDA=ON, or "
         "use --backend host";
}
void use_gpu(int) { throw Error(ExitCode::environment, no_gpu_reason()); }
int current_gpu() { throw Error(ExitCode::environment, no_gpu_reason()); }
std::size_t gpu_memory_used() { return 0; }
void limit_gpu_memory(std::size_t) {}
std::string cuda_versions() { return {}; }
int nccl_version() { return 0; }

Range::Range(const char*) noexcept {}
// With = default here, performance-trivially-destructible asks for what the build with CUDA cannot
// have.
Range::~Range() {}  // NOLINT(modernize-use-equals-default)

}  // namespace zeropp

#include "lib/device/device.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"

namespace zeropp {

Device Device::host() {
  return {Backend::host, MemoryKind::host, &host_runtime(), &host_memory_ops()};
}

Device Device::cuda(int index) {
  const std::size_t count = visible_gpus().size();
  if (count == 0) throw Error(ExitCode::environment, no_gpu_reason());
  if (index < 0 || static_cast<std::size_t>(index) >= count) {
    throw Error(ExitCode::environment,
                fmt::format("GPU {} was asked for, {} are visible: give every rank of a node its "
                            "own (--gpus-per-node, --gpu-bind=none), or use --backend host",
                            index, count));
  }
  use_gpu(index);
  return {Backend::cuda, MemoryKind::device, cuda_runtime(), cuda_memory_ops()};
}

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace zeropp

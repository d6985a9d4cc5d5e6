// Stands for kernels/core/cuda in a build without CUDA.
#include "kernels/core/memory_ops.hpp"
#include "kernels/core/memory_probe.hpp"

namespace zeropp {
const MemoryOps* cuda_memory_ops() { return nullptr; }
const MemoryProbe* cuda_memory_probe() { return nullptr; }
}  // namespace zeropp

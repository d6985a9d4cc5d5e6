// Stands for kernels/core/cuda in a build without CUDA.
#include "kernels/core/memory_ops.hpp"

namespace zeropp {
const MemoryOps* cuda_memory_ops() { return nullptr; }
}  // namespace zeropp

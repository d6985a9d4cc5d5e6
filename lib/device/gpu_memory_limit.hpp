// A limit on the GPU memory of this process's buffers, for runs that have to fit a smaller GPU.
#pragma once

#include <cstddef>

namespace zeropp {

/// Limits the GPU memory of all buffers of this process to so many bytes (0: no limit): making a
/// buffer that would exceed it fails. No effect in a build without CUDA.
void limit_gpu_memory(std::size_t bytes);

}  // namespace zeropp

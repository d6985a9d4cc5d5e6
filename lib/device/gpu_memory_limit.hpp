// A limit on the GPU memory of this process's buffers, for runs that have to fit a smaller GPU.
#pragma once

#include <cstddef>

namespace zeropp {

/// Buffers that are made from now on fail where all that are held would be more than so many
/// bytes; 0: as many as there are. No effect in a build without CUDA.
void limit_gpu_memory(std::size_t bytes);

}  // namespace zeropp

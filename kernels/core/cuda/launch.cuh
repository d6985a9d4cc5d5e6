// Launching kernels: the stream of a handle, grids that cover n elements, the check after a launch.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/core/cuda/check.hpp"
#include "kernels/core/stream.hpp"

namespace zeropp::cuda {

inline cudaStream_t stream_of(StreamHandle stream) {
  return static_cast<cudaStream_t>(stream.native);
}

/// Errors of the launch itself; those of the kernel come from a later call.
inline void check_launch(const std::source_location& where = std::source_location::current()) {
  check(cudaGetLastError(), where);
}

inline constexpr unsigned kThreads = 256;

/// Blocks for a grid-stride loop over n items of `threads` a block: enough to fill any GPU of
/// today, few enough that 2^31 blocks are never asked for.
inline unsigned grid_for(std::size_t n, unsigned threads = kThreads) {
  constexpr std::size_t kMost = 132 * 16;
  return static_cast<unsigned>(std::clamp<std::size_t>((n + threads - 1) / threads, 1, kMost));
}

/// body(i) for i in [0, n), in any order.
template <class Body>
__global__ void for_each_kernel(std::size_t n, Body body) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    body(i);
  }
}

/// The plain kernel: one element a turn. `body` is a function object with a __device__ operator().
template <class Body>
void for_each(std::size_t n, StreamHandle stream, Body body) {
  if (n == 0) return;
  for_each_kernel<<<grid_for(n), kThreads, 0, stream_of(stream)>>>(n, body);
  check_launch();
}

}  // namespace zeropp::cuda

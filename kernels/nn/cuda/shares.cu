#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/shares.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kLanes = 32;  ///< columns of a block
constexpr unsigned kWarps = 16;  ///< shares that a block reads at once

/// Warp w of a block takes shares w, w + 16, ...; then the warps' sums are added in order.
__global__ void __launch_bounds__(kLanes* kWarps)
    join_shares_kernel(std::size_t count, std::size_t columns, bool accumulate, Shares first,
                       Shares second) {
  __shared__ float part[kWarps][kLanes];
  const auto [share, total] = blockIdx.y == 0 ? first : second;
  const std::size_t j = static_cast<std::size_t>(blockIdx.x) * kLanes + threadIdx.x;
  float sum = 0.0F;
  if (j < columns) {
#pragma unroll 8
    for (std::size_t s = threadIdx.y; s < count; s += kWarps) sum += share[s * columns + j];
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= columns) return;
#pragma unroll
  for (unsigned warp = 1; warp < kWarps; ++warp) sum += part[warp][threadIdx.x];
  total[j] = accumulate ? total[j] + sum : sum;
}

}  // namespace

void join_shares(StreamHandle stream, std::size_t count, std::size_t columns, bool accumulate,
                 std::initializer_list<Shares> sums) {
  const dim3 grid(static_cast<unsigned>((columns + kLanes - 1) / kLanes),
                  static_cast<unsigned>(sums.size()));
  join_shares_kernel<<<grid, dim3(kLanes, kWarps), 0, cuda::stream_of(stream)>>>(
      count, columns, accumulate, *sums.begin(), *(sums.end() - 1));
  cuda::check_launch();
}

}  // namespace zeropp::nn::cuda_ops

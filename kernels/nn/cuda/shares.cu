#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/shares.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kLanes = 32;  ///< columns of a block
constexpr unsigned kWarps = 16;  ///< shares that a block reads at once

template <class T>
struct Sum {
  const float* share;
  T* total;
};

/// Warp w of a block takes shares w, w + 16, ...; then the warps' sums are added in order.
template <class T>
__global__ void __launch_bounds__(kLanes* kWarps)
    join_shares_kernel(std::size_t count, std::size_t columns, bool accumulate, Sum<T> first,
                       Sum<T> second) {
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
  total[j] = rounded<T>(accumulate ? to_float(total[j]) + sum : sum);
}

}  // namespace

void join_shares(StreamHandle stream, std::size_t count, std::size_t columns, bool accumulate,
                 std::initializer_list<Shares> sums) {
  const dim3 grid(static_cast<unsigned>((columns + kLanes - 1) / kLanes),
                  static_cast<unsigned>(sums.size()));
  with_type(sums.begin()->total.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto sum_of = [](const Shares& from) {
      return Sum<T>{from.share, from.total.template as<T>()};
    };
    join_shares_kernel<T><<<grid, dim3(kLanes, kWarps), 0, cuda::stream_of(stream)>>>(
        count, columns, accumulate, sum_of(*sums.begin()), sum_of(*(sums.end() - 1)));
  });
  cuda::check_launch();
}

}  // namespace zeropp::nn::cuda_ops

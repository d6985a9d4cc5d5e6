#include <algorithm>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/column_sums.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/shares.hpp"
#include "kernels/nn/cuda/views.hpp"
#include "kernels/nn/cuda_sizes.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kLanes = 32;                        ///< packs of columns of a block
constexpr unsigned kWarps = cuda_sizes::kColumnWarps;  ///< rows that a block reads side by side
constexpr int kInFlight = cuda_sizes::kColumnRowsInFlight;  ///< rows that a warp reads at once
constexpr unsigned kBlocks = cuda_sizes::kColumnBlocks;     ///< of a multiprocessor

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

/// share[group, j] = sum over the group's rows of dy[r, j]. Warp w of a block takes rows w,
/// w + 8, ... of its group; then the warps' sums are added in order.
template <class T, int W>
__global__ void __launch_bounds__(kLanes* kWarps, kBlocks)
    column_sums_kernel(std::size_t rows, std::size_t columns, std::size_t stride,
                       std::size_t group_rows, const T* dy, float* share) {
  __shared__ float sums[kWarps][W][kLanes];
  const std::size_t column = (static_cast<std::size_t>(blockIdx.x) * kLanes + threadIdx.x) * W;
  const std::size_t first = blockIdx.y * group_rows;
  const std::size_t last = first + group_rows < rows ? first + group_rows : rows;
  float sum[W] = {};
  if (column < columns) {
    for (std::size_t row = first + threadIdx.y; row < last; row += kInFlight * kWarps) {
      Pack<T, W> packs[kInFlight] = {};
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const std::size_t r = row + k * kWarps;
        if (r < last) packs[k] = load<W>(dy + r * stride + column);
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
#pragma unroll
        for (int i = 0; i < W; ++i) sum[i] += packs[k][i];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i) sums[threadIdx.y][i][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  Pack<float, W> total = {};
#pragma unroll
  for (unsigned warp = 0; warp < kWarps; ++warp) {
#pragma unroll
    for (int i = 0; i < W; ++i) total.value[i] += sums[warp][i][threadIdx.x];
  }
  store(share + blockIdx.y * columns + column, total);
}

}  // namespace

void column_sums(const NnContext& context, const LinearShape& shape, ConstView dy, bool accumulate,
                 View d_bias) {
  const std::size_t columns = shape.out;
  const std::size_t group_rows =
      ceil_div(shape.rows, cuda_sizes::column_groups(shape.rows, columns));
  const std::size_t groups = ceil_div(shape.rows, group_rows);
  float* const share =
      elements<float>(context.workspace, groups * columns, "workspace of column sums");
  with_type(dy.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const from = dy.as<T>();
    const bool aligned = rows_aligned<T>(shape.stride(), {from}) && columns % kPack<T> == 0;
    with_pack<T>(aligned, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const dim3 grid(static_cast<unsigned>(ceil_div(columns, kLanes * kWidth)),
                      static_cast<unsigned>(groups));
      column_sums_kernel<T, kWidth>
          <<<grid, dim3(kLanes, kWarps), 0, cuda::stream_of(context.stream)>>>(
              shape.rows, columns, shape.stride(), group_rows, from, share);
      cuda::check_launch();
    });
  });
  join_shares(context.stream, groups, columns, accumulate, {{share, d_bias}});
}

}  // namespace zeropp::nn::cuda_ops

#include <algorithm>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/column_sums.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kLanes = 32;  ///< packs of columns a block
constexpr unsigned kWarps = 8;   ///< rows that a block reads at once

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

/// Groups of rows with a partial sum each: enough blocks for a GPU, and not so many that the second
/// pass has much to read.
std::size_t groups_for(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kBlocks = 8 * 132;
  const std::size_t most = std::max<std::size_t>(1, kBlocks / ceil_div(columns, 256));
  return std::min(ceil_div(rows, 4 * kWarps), most);
}

/// partial[group, j] = sum over the group's rows of dy[r, j]. Warp w of a block takes rows w,
/// w + 8, ... of its group; then the warps' sums are added in order.
template <class T, int W>
__global__ void column_sums_kernel(std::size_t rows, std::size_t columns, std::size_t stride,
                                   std::size_t group_rows, const T* dy, float* partial) {
  __shared__ float sums[kWarps][W][kLanes];
  const std::size_t column = (static_cast<std::size_t>(blockIdx.x) * kLanes + threadIdx.x) * W;
  const std::size_t first = blockIdx.y * group_rows;
  const std::size_t last = first + group_rows < rows ? first + group_rows : rows;
  float sum[W] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::size_t row = first + threadIdx.y; row < last; row += kWarps) {
      const Pack<T, W> values = load<W>(dy + row * stride + column);
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += to_float(values.value[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i) sums[threadIdx.y][i][threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float total = 0.0F;
#pragma unroll
    for (unsigned warp = 0; warp < kWarps; ++warp) total += sums[warp][i][threadIdx.x];
    partial[blockIdx.y * columns + column + i] = total;
  }
}

struct JoinGroups {
  std::size_t groups;
  std::size_t columns;
  const float* partial;
  bool accumulate;
  float* d_bias;

  __device__ void operator()(std::size_t column) const {
    float total = 0.0F;
#pragma unroll 4
    for (std::size_t group = 0; group < groups; ++group) {
      total += partial[group * columns + column];
    }
    d_bias[column] = accumulate ? d_bias[column] + total : total;
  }
};

}  // namespace

void column_sums(const NnContext& context, const LinearShape& shape, ConstView dy, bool accumulate,
                 View d_bias) {
  const std::size_t columns = shape.out;
  const std::size_t group_rows = ceil_div(shape.rows, groups_for(shape.rows, columns));
  const std::size_t groups = ceil_div(shape.rows, group_rows);
  float* const partial =
      elements<float>(context.workspace, groups * columns, "workspace of column sums");
  with_activation(dy.dtype, "linear output gradient", [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const from = dy.as<T>();
    const bool aligned = rows_aligned<T>(shape.stride(), {from}) && columns % kPack<T> == 0;
    with_pack<T>(aligned, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const dim3 grid(static_cast<unsigned>(ceil_div(columns, kLanes * kWidth)),
                      static_cast<unsigned>(groups));
      column_sums_kernel<T, kWidth>
          <<<grid, dim3(kLanes, kWarps), 0, cuda::stream_of(context.stream)>>>(
              shape.rows, columns, shape.stride(), group_rows, from, partial);
      cuda::check_launch();
    });
  });
  cuda::for_each(columns, context.stream,
                 JoinGroups{groups, columns, partial, accumulate, d_bias.as<float>()});
}

std::size_t column_sums_workspace(const LinearShape& shape) {
  return groups_for(shape.rows, shape.out) * shape.out;
}

}  // namespace zeropp::nn::cuda_ops

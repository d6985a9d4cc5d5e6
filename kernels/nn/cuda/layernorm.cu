// Layer normalisation on the GPU, forward: a row is read once and kept in registers, by one warp
// where it fits, so that its sums need no barrier.
#include <algorithm>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr float kEpsilon = 1e-5F;
constexpr unsigned kThreads = 1024;  ///< of a row, at most
constexpr unsigned kRows = 8;        ///< of a block, where a warp has a row
constexpr int kKept = 2;             ///< packs of a row that a thread keeps

/// body(j, pack) for every pack of a thread: j the first element. The first kKept come from
/// `kept`, the rest from memory.
template <int W, class T, class Body>
__device__ __forceinline__ void for_packs(unsigned hidden, const T* row,
                                          const Pack<T, W> (&kept)[kKept], Body body) {
  const unsigned step = blockDim.x * W;
  unsigned j = threadIdx.x * W;
#pragma unroll
  for (int k = 0; k < kKept; ++k, j += step) {
    if (j < hidden) body(j, kept[k]);
  }
  for (; j < hidden; j += step) body(j, load<W>(row + j));
}

/// scale is 1 / hidden. A block has blockDim.y rows of blockDim.x threads: several rows of one warp
/// each, or one row.
template <class T, int W>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(unsigned rows, unsigned hidden, float scale, const T* x, const T* weight,
                   const T* bias, T* y, float* mean, float* rstd) {
  __shared__ float scratch[2][1][32];
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const std::size_t first = static_cast<std::size_t>(row) * hidden;
  const T* const in = x + first;
  T* const out = y + first;
  const unsigned step = blockDim.x * W;
  unsigned j = threadIdx.x * W;
  Pack<T, W> kept[kKept];
#pragma unroll
  for (int k = 0; k < kKept; ++k, j += step) {
    if (j < hidden) kept[k] = load<W>(in + j);
  }

  float sum[1] = {0.0F};
  for_packs(hidden, in, kept, [&](unsigned, const Pack<T, W>& pack) {
#pragma unroll
    for (int i = 0; i < W; ++i) sum[0] += pack[i];
  });
  row_sums(sum, scratch[0]);
  const float m = scale * sum[0];

  float squares[1] = {0.0F};
  for_packs(hidden, in, kept, [&](unsigned, const Pack<T, W>& pack) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float d = pack[i] - m;
      squares[0] = fmaf(d, d, squares[0]);
    }
  });
  row_sums(squares, scratch[1]);
  const float r = 1.0F / sqrtf(scale * squares[0] + kEpsilon);

  for_packs(hidden, in, kept, [&](unsigned at, const Pack<T, W>& pack) {
    const Pack<T, W> w = load<W>(weight + at);
    const Pack<T, W> b = load<W>(bias + at);
    float result[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float n = (pack[i] - m) * r;
      result[i] = fmaf(n, w[i], b[i]);
    }
    store(out + at, rounded<T>(result));
  });
  if (threadIdx.x == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace

void layernorm_forward(const NnContext& context, std::size_t rows, std::size_t hidden, ConstView x,
                       ConstView weight, ConstView bias, View y, View mean, View rstd) {
  float* const means = elements<float>(mean, rows, "layernorm mean");
  float* const rstds = elements<float>(rstd, rows, "layernorm rstd");
  with_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const in = elements<T>(x, rows * hidden, "layernorm input");
    const T* const w = elements<T>(weight, hidden, "layernorm weight");
    const T* const b = elements<T>(bias, hidden, "layernorm bias");
    T* const out = elements<T>(y, rows * hidden, "layernorm output");
    if (rows == 0) return;
    with_pack<T>(rows_aligned<T>(hidden, {in, w, b, out}), [&](auto pack) {
      constexpr int kWidth = pack;
      const unsigned threads = threads_for(hidden / kWidth, kKept, kThreads);
      const dim3 block(threads, threads == 32 ? kRows : 1);
      const auto blocks = static_cast<unsigned>((rows + block.y - 1) / block.y);
      forward_kernel<T, kWidth><<<blocks, block, 0, cuda::stream_of(context.stream)>>>(
          static_cast<unsigned>(rows), static_cast<unsigned>(hidden),
          1.0F / static_cast<float>(hidden), in, w, b, out, means, rstds);
      cuda::check_launch();
    });
  });
}

}  // namespace zeropp::nn::cuda_ops

// Normalisation of rows on the GPU, forward: a row is read once and kept in registers, by one warp
// where it fits, so that its sums need no barrier.
#include <algorithm>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

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

/// kCentred: layer normalisation, else RMS. scale is 1 / hidden. A block has blockDim.y rows of
/// blockDim.x threads: several rows of one warp each, or one row.
template <class T, int W, bool kCentred>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(unsigned rows, unsigned hidden, float scale, float epsilon, const T* x,
                   const T* weight, const T* bias, T* y, float* mean, float* rstd) {
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

  float m = 0.0F;
  if constexpr (kCentred) {
    float sum[1] = {0.0F};
    for_packs(hidden, in, kept, [&](unsigned, const Pack<T, W>& pack) {
#pragma unroll
      for (int i = 0; i < W; ++i) sum[0] += pack[i];
    });
    row_sums(sum, scratch[0]);
    m = scale * sum[0];
  }

  float squares[1] = {0.0F};
  for_packs(hidden, in, kept, [&](unsigned, const Pack<T, W>& pack) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float d = pack[i] - m;
      squares[0] = fmaf(d, d, squares[0]);
    }
  });
  row_sums(squares, scratch[1]);
  const float r = 1.0F / sqrtf(scale * squares[0] + epsilon);

  for_packs(hidden, in, kept, [&](unsigned at, const Pack<T, W>& pack) {
    const Pack<T, W> w = load<W>(weight + at);
    float result[W];
    if constexpr (kCentred) {
      const Pack<T, W> b = load<W>(bias + at);
#pragma unroll
      for (int i = 0; i < W; ++i) result[i] = fmaf((pack[i] - m) * r, w[i], b[i]);
    } else {
#pragma unroll
      for (int i = 0; i < W; ++i) result[i] = pack[i] * r * w[i];
    }
    store(out + at, rounded<T>(result));
  });
  if (threadIdx.x == 0) {
    if constexpr (kCentred) mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace

void norm_forward(const NnContext& context, const NormShape& shape, ConstView x, ConstView weight,
                  ConstView bias, View y, View mean, View rstd) {
  const std::size_t rows = shape.rows;
  const bool centred = mean.count > 0;
  float* const means = centred ? elements<float>(mean, rows, "norm mean") : nullptr;
  float* const rstds = elements<float>(rstd, rows, "norm rstd");
  with_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const in = elements<T>(x, shape.rows * shape.hidden, "norm input");
    const T* const w = elements<T>(weight, shape.hidden, "norm weight");
    const T* const b = centred ? elements<T>(bias, shape.hidden, "norm bias") : nullptr;
    T* const out = elements<T>(y, shape.rows * shape.hidden, "norm output");
    if (shape.rows == 0) return;
    with_pack<T>(rows_aligned<T>(shape.hidden, {in, w, b, out}), [&](auto pack) {
      constexpr int kWidth = pack;
      const unsigned threads = threads_for(shape.hidden / kWidth, kKept, kThreads);
      const dim3 block(threads, threads == 32 ? kRows : 1);
      const auto blocks = static_cast<unsigned>((shape.rows + block.y - 1) / block.y);
      const auto kernel =
          centred ? forward_kernel<T, kWidth, true> : forward_kernel<T, kWidth, false>;
      kernel<<<blocks, block, 0, cuda::stream_of(context.stream)>>>(
          static_cast<unsigned>(shape.rows), static_cast<unsigned>(shape.hidden),
          1.0F / static_cast<float>(shape.hidden), shape.epsilon, in, w, b, out, means, rstds);
      cuda::check_launch();
    });
  });
}

}  // namespace zeropp::nn::cuda_ops

// Layer normalisation on the GPU. Forward: a block a row, kept in registers. Backward: a block
// takes rows in turn, so that its share of the weight's and bias' gradients stays in registers
// too; the shares of the blocks are then added in order.
#include <algorithm>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/memory_ops.hpp"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr float kEpsilon = 1e-5F;
constexpr unsigned kForwardThreads = 1024;

/// body(j, pack) for every pack of a thread: j the first element. The first kKept come from
/// `kept`, the rest from memory.
template <int W, class T, class Body>
__device__ __forceinline__ void for_packs(std::size_t hidden, const T* row,
                                          const Pack<T, W> (&kept)[kKept], Body body) {
  const std::size_t step = static_cast<std::size_t>(blockDim.x) * W;
  std::size_t j = static_cast<std::size_t>(threadIdx.x) * W;
#pragma unroll
  for (int k = 0; k < kKept; ++k, j += step) {
    if (j < hidden) body(j, kept[k]);
  }
  for (; j < hidden; j += step) body(j, load<W>(row + j));
}

template <int W, class T>
__device__ __forceinline__ void keep(std::size_t hidden, const T* row, Pack<T, W> (&kept)[kKept]) {
  const std::size_t step = static_cast<std::size_t>(blockDim.x) * W;
  std::size_t j = static_cast<std::size_t>(threadIdx.x) * W;
#pragma unroll
  for (int k = 0; k < kKept; ++k, j += step) {
    if (j < hidden) kept[k] = load<W>(row + j);
  }
}

template <class T, int W>
__global__ void __launch_bounds__(kForwardThreads)
    forward_kernel(std::size_t hidden, const T* x, const T* weight, const T* bias, T* y,
                   float* mean, float* rstd) {
  __shared__ float scratch[2][1][32];
  const std::size_t row = blockIdx.x;
  const T* const in = x + row * hidden;
  T* const out = y + row * hidden;
  const float scale = 1.0F / static_cast<float>(hidden);
  Pack<T, W> kept[kKept];
  keep(hidden, in, kept);

  float sum[1] = {0.0F};
  for_packs(hidden, in, kept, [&](std::size_t, const Pack<T, W>& pack) {
#pragma unroll
    for (int i = 0; i < W; ++i) sum[0] += to_float(pack.value[i]);
  });
  block_sums(sum, scratch[0]);
  const float m = scale * sum[0];

  float squares[1] = {0.0F};
  for_packs(hidden, in, kept, [&](std::size_t, const Pack<T, W>& pack) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float d = to_float(pack.value[i]) - m;
      squares[0] += d * d;
    }
  });
  block_sums(squares, scratch[1]);
  const float r = 1.0F / sqrtf(scale * squares[0] + kEpsilon);

  for_packs(hidden, in, kept, [&](std::size_t j, const Pack<T, W>& pack) {
    const Pack<T, W> w = load<W>(weight + j);
    const Pack<T, W> b = load<W>(bias + j);
    Pack<T, W> result;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      result.value[i] = saturating_cast<T>(
          (to_float(pack.value[i]) - m) * r * to_float(w.value[i]) + to_float(b.value[i]));
    }
    store(out + j, result);
  });
  if (threadIdx.x == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

/// A block's share of the gradients of weight and bias: of the packs that a thread keeps in
/// registers, of the rest in the block's row of the workspace.
template <int W>
struct Share {
  float weight[kKept][W];
  float bias[kKept][W];
};

constexpr unsigned kBackwardThreads = 512;
/// Blocks of the backward kernel: four a multiprocessor of a Hopper, or one a row.
constexpr std::size_t kShares = 4 * 132;
std::size_t shares_for(std::size_t rows) { return std::min(rows, kShares); }

/// share_weight, share_bias [gridDim.x, hidden] are written.
template <class T, int W>
__global__ void __launch_bounds__(kBackwardThreads)
    backward_kernel(std::size_t rows, std::size_t hidden, const T* dy, const T* x, const T* weight,
                    const float* mean, const float* rstd, bool accumulate, T* dx,
                    float* share_weight, float* share_bias) {
  __shared__ float scratch[2][2][32];
  const float scale = 1.0F / static_cast<float>(hidden);
  const std::size_t step = static_cast<std::size_t>(blockDim.x) * W;
  const std::size_t begin = static_cast<std::size_t>(threadIdx.x) * W;
  float* const rest_weight = share_weight + blockIdx.x * hidden;
  float* const rest_bias = share_bias + blockIdx.x * hidden;
  Share<W> share = {};

  int turn = 0;
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x, ++turn) {
    const T* const grad = dy + row * hidden;
    const T* const in = x + row * hidden;
    T* const out = dx + row * hidden;
    Pack<T, W> kept_grad[kKept];
    Pack<T, W> kept_in[kKept];
    keep(hidden, grad, kept_grad);
    keep(hidden, in, kept_in);
    const float m = mean[row];
    const float r = rstd[row];

    // sum of g and of g n, and what this row adds to the shares
    float sum[2] = {0.0F, 0.0F};
    const auto statistics = [&](std::size_t j, const Pack<T, W>& g_pack, const Pack<T, W>& x_pack,
                                float(&d_weight)[W], float(&d_bias)[W]) {
      const Pack<T, W> w = load<W>(weight + j);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float d = to_float(g_pack.value[i]);
        const float n = (to_float(x_pack.value[i]) - m) * r;
        const float g = d * to_float(w.value[i]);
        sum[0] += g;
        sum[1] += g * n;
        d_weight[i] += d * n;
        d_bias[i] += d;
      }
    };
    std::size_t j = begin;
#pragma unroll
    for (int k = 0; k < kKept; ++k, j += step) {
      if (j < hidden) statistics(j, kept_grad[k], kept_in[k], share.weight[k], share.bias[k]);
    }
    for (; j < hidden; j += step) {
      float d_weight[W];
      float d_bias[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        d_weight[i] = turn == 0 ? 0.0F : rest_weight[j + i];
        d_bias[i] = turn == 0 ? 0.0F : rest_bias[j + i];
      }
      statistics(j, load<W>(grad + j), load<W>(in + j), d_weight, d_bias);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        rest_weight[j + i] = d_weight[i];
        rest_bias[j + i] = d_bias[i];
      }
    }
    // Two arrays in turn: the block has left one when it writes it again.
    block_sums(sum, scratch[turn % 2]);
    const float mean_g = scale * sum[0];
    const float mean_gn = scale * sum[1];

    const auto gradient = [&](std::size_t at, const Pack<T, W>& g_pack, const Pack<T, W>& x_pack) {
      const Pack<T, W> w = load<W>(weight + at);
      Pack<T, W> result;
      if (accumulate) result = load<W>(out + at);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float n = (to_float(x_pack.value[i]) - m) * r;
        const float g = to_float(g_pack.value[i]) * to_float(w.value[i]);
        const float before = accumulate ? to_float(result.value[i]) : 0.0F;
        result.value[i] = saturating_cast<T>(before + r * (g - mean_g - n * mean_gn));
      }
      store(out + at, result);
    };
    j = begin;
#pragma unroll
    for (int k = 0; k < kKept; ++k, j += step) {
      if (j < hidden) gradient(j, kept_grad[k], kept_in[k]);
    }
    for (; j < hidden; j += step) gradient(j, load<W>(grad + j), load<W>(in + j));
  }

  std::size_t j = begin;
#pragma unroll
  for (int k = 0; k < kKept; ++k, j += step) {
    if (j >= hidden) break;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      rest_weight[j + i] = share.weight[k][i];
      rest_bias[j + i] = share.bias[k][i];
    }
  }
}

/// total[j] = (accumulate ? total[j] : 0) + sum over shares of share[., j]: a block has 32 columns,
/// each of its 32 warps every 32nd share; then the warps in order.
__global__ void __launch_bounds__(1024)
    join_shares_kernel(std::size_t shares, std::size_t hidden, const float* share_weight,
                       const float* share_bias, bool accumulate, float* d_weight, float* d_bias) {
  __shared__ float part[32][33];
  const float* const share = blockIdx.y == 0 ? share_weight : share_bias;
  float* const total = blockIdx.y == 0 ? d_weight : d_bias;
  const std::size_t j = static_cast<std::size_t>(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0.0F;
  if (j < hidden) {
#pragma unroll 4
    for (std::size_t s = threadIdx.y; s < shares; s += 32) sum += share[s * hidden + j];
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= hidden) return;
  for (int warp = 1; warp < 32; ++warp) sum += part[warp][threadIdx.x];
  total[j] = accumulate ? total[j] + sum : sum;
}

}  // namespace

void layernorm_forward(const NnContext& context, std::size_t rows, std::size_t hidden, ConstView x,
                       ConstView weight, ConstView bias, View y, View mean, View rstd) {
  float* const means = elements<float>(mean, rows, "layernorm mean");
  float* const rstds = elements<float>(rstd, rows, "layernorm rstd");
  with_activation(x.dtype, "layernorm", [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const in = elements<T>(x, rows * hidden, "layernorm input");
    const T* const w = elements<T>(weight, hidden, "layernorm weight");
    const T* const b = elements<T>(bias, hidden, "layernorm bias");
    T* const out = elements<T>(y, rows * hidden, "layernorm output");
    if (rows == 0) return;
    with_pack<T>(rows_aligned<T>(hidden, {in, w, b, out}), [&](auto pack) {
      constexpr int kWidth = pack;
      const unsigned threads = threads_for((hidden + kWidth - 1) / kWidth, kForwardThreads);
      forward_kernel<T, kWidth>
          <<<static_cast<unsigned>(rows), threads, 0, cuda::stream_of(context.stream)>>>(
              hidden, in, w, b, out, means, rstds);
      cuda::check_launch();
    });
  });
}

void layernorm_backward(const NnContext& context, std::size_t rows, std::size_t hidden,
                        ConstView dy, ConstView x, ConstView weight, ConstView mean, ConstView rstd,
                        bool accumulate_dx, View dx, bool accumulate, View d_weight, View d_bias) {
  const std::size_t shares = shares_for(rows);
  const float* const means = elements<float>(mean, rows, "layernorm mean");
  const float* const rstds = elements<float>(rstd, rows, "layernorm rstd");
  float* const d_w = elements<float>(d_weight, hidden, "layernorm weight gradient");
  float* const d_b = elements<float>(d_bias, hidden, "layernorm bias gradient");
  float* const share_weight =
      elements<float>(context.workspace, layernorm_workspace(rows, hidden), "layernorm workspace");
  float* const share_bias = share_weight + shares * hidden;
  const cudaStream_t stream = cuda::stream_of(context.stream);
  with_activation(x.dtype, "layernorm", [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const grad = elements<T>(dy, rows * hidden, "layernorm output gradient");
    const T* const in = elements<T>(x, rows * hidden, "layernorm input");
    const T* const w = elements<T>(weight, hidden, "layernorm weight");
    T* const out = elements<T>(dx, rows * hidden, "layernorm input gradient");
    if (rows == 0) return;
    with_pack<T>(rows_aligned<T>(hidden, {grad, in, w, out}), [&](auto pack) {
      constexpr int kWidth = pack;
      const unsigned threads = threads_for((hidden + kWidth - 1) / kWidth, kBackwardThreads);
      backward_kernel<T, kWidth><<<static_cast<unsigned>(shares), threads, 0, stream>>>(
          rows, hidden, grad, in, w, means, rstds, accumulate_dx, out, share_weight, share_bias);
      cuda::check_launch();
    });
  });
  if (rows == 0) {
    if (accumulate) return;
    for (const View& sum : {d_weight, d_bias}) cuda_memory_ops()->clear(sum, context.stream);
    return;
  }
  const dim3 grid(static_cast<unsigned>((hidden + 31) / 32), 2);
  join_shares_kernel<<<grid, dim3(32, 32), 0, stream>>>(shares, hidden, share_weight, share_bias,
                                                        accumulate, d_w, d_b);
  cuda::check_launch();
}

std::size_t layernorm_workspace(std::size_t rows, std::size_t hidden) {
  return 2 * shares_for(rows) * hidden;
}

}  // namespace zeropp::nn::cuda_ops

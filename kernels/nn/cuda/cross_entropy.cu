// Cross-entropy on the GPU, one block per row. The block reads the row from memory once, for its
// statistics, and keeps it in shared memory for the gradient that replaces it. Elements that do not
// fit there are read again.
#include <algorithm>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/running_softmax.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kThreads = 512;
/// Blocks of a multiprocessor: while one computes, the other reads or writes.
constexpr unsigned kBlocks = 2;
/// Bytes of a row that a block keeps: half of a Hopper's shared memory, less what is reserved.
constexpr std::size_t kKeptBytes = std::size_t{112} << 10U;
constexpr int kInFlight = 7;  ///< packs that a thread reads at once

/// Puts `value` into the elements of the pack at v that lie past the row's end.
template <int W>
__device__ __forceinline__ void mask(float (&values)[W], unsigned v, unsigned vocab, float value) {
  if (v + W <= vocab) return;
#pragma unroll
  for (int i = 0; i < W; ++i) values[i] = v + i < vocab ? values[i] : value;
}

/// Rows lie `stride` apart; `kept` of their elements, whole packs, have room in shared memory. A
/// thread reads there what it has written itself. The last pack of a row may reach into the
/// padding.
template <class T, int W>
__global__ void __launch_bounds__(kThreads, kBlocks)
    cross_entropy_kernel(unsigned vocab, unsigned stride, unsigned kept,
                         const std::int32_t* targets, bool gradient, float weight, T* logits,
                         float* row_loss) {
  extern __shared__ uint4 shared[];
  __shared__ RunningSoftmax scratch[32];
  T* const copy = reinterpret_cast<T*>(shared);
  const unsigned r = blockIdx.x;
  T* const row = logits + static_cast<std::size_t>(r) * stride;
  const auto target = static_cast<unsigned>(targets[r]);
  constexpr unsigned kStep = kThreads * W;
  const unsigned begin = threadIdx.x * W;

  RunningSoftmax softmax;
  for (unsigned first = begin; first < vocab; first += kInFlight * kStep) {
    Pack<T, W> packs[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (first + k * kStep < vocab) packs[k] = load<W>(row + first + k * kStep);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const unsigned v = first + k * kStep;
      if (v >= vocab) break;
      if (v < kept) store(copy + v, packs[k]);
      float values[W];
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = packs[k][i];
      mask(values, v, vocab, -INFINITY);
      softmax.add(values);
    }
  }
  const float at_target = to_float(row[target]);  // before any thread replaces it: join_block waits
  softmax.join_block(scratch);
  const float top = RunningSoftmax::base(softmax.largest);
  if (threadIdx.x == 0) row_loss[r] = logf(softmax.sum) - (at_target - top);
  if (!gradient) return;

  const float scale = weight / softmax.sum;
#pragma unroll 4
  for (unsigned v = begin; v < stride; v += kStep) {
    float values[W] = {};
    if (v < vocab) {
      const Pack<T, W> pack = v < kept ? load<W>(copy + v) : load<W>(row + v);
#pragma unroll
      for (int i = 0; i < W; ++i) values[i] = softmax_exp(pack[i] - top) * scale;
      mask(values, v, vocab, 0.0F);
      if (target - v < W) {
#pragma unroll
        for (int i = 0; i < W; ++i) values[i] -= v + i == target ? weight : 0.0F;
      }
    }
    store(row + v, rounded<T>(values));
  }
}

}  // namespace

void cross_entropy(const NnContext& context, std::size_t rows, std::size_t vocab,
                   std::size_t stride, const std::int32_t* targets, bool gradient, float loss_scale,
                   View logits, View row_loss) {
  float* const losses = elements<float>(row_loss, rows, "cross-entropy row loss");
  if (rows == 0) return;
  with_type(logits.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const values = elements<T>(logits, rows * stride, "cross-entropy logits");
    with_pack<T>(rows_aligned<T>(stride, {values}), [&](auto pack) {
      constexpr int kWidth = pack;
      const auto kernel = cross_entropy_kernel<T, kWidth>;
      const std::size_t kept = gradient ? std::min(stride, kKeptBytes / sizeof(T)) : 0;
      cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(kKeptBytes)));
      kernel<<<static_cast<unsigned>(rows), kThreads, kept * sizeof(T),
               cuda::stream_of(context.stream)>>>(
          static_cast<unsigned>(vocab), static_cast<unsigned>(stride), static_cast<unsigned>(kept),
          targets, gradient, loss_scale / static_cast<float>(rows), values, losses);
      cuda::check_launch();
    });
  });
}

}  // namespace zeropp::nn::cuda_ops

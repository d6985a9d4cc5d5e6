// The largest value of a row and the sum of e^(value - largest) in one pass (Milakov and
// Gimelshein, arXiv 1805.02867): by thread, then by lanes and warps in a fixed order.
#pragma once

#include <cstddef>

#include "kernels/nn/math.hpp"

namespace zeropp::nn::cuda_ops {

/// Of no value: -infinity and 0. A NaN stays in the sum.
struct RunningSoftmax {
  float largest = -INFINITY;
  float sum = 0.0F;

  /// What exponents are taken relative to: finite where nothing but -infinity was seen.
  __device__ static float base(float largest) { return largest == -INFINITY ? 0.0F : largest; }

  template <int N>
  __device__ __forceinline__ void add(const float (&values)[N]) {
    float top = largest;
#pragma unroll
    for (int k = 0; k < N; ++k) top = values[k] > top ? values[k] : top;
    const float zero = base(top);
    float part = sum * fast_exp(largest - zero);
#pragma unroll
    for (int k = 0; k < N; ++k) part += fast_exp(values[k] - zero);
    largest = top;
    sum = part;
  }

  __device__ __forceinline__ void join(RunningSoftmax other) {
    const float top = other.largest > largest ? other.largest : largest;
    const float zero = base(top);
    sum = sum * fast_exp(largest - zero) + other.sum * fast_exp(other.largest - zero);
    largest = top;
  }

  /// Joins those of all threads of the block: the same for all of them. `scratch`: shared memory of
  /// this call alone.
  __device__ __forceinline__ void join_block(RunningSoftmax (&scratch)[32]) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      join({__shfl_xor_sync(0xFFFFFFFFU, largest, half), __shfl_xor_sync(0xFFFFFFFFU, sum, half)});
    }
    if (blockDim.x == 32) return;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = *this;
    __syncthreads();
    *this = scratch[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) join(scratch[warp]);
  }
};

}  // namespace zeropp::nn::cuda_ops

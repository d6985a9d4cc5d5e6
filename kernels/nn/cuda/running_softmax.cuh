// The largest value of a row and the sum of e^(value - largest) in one pass (Milakov and
// Gimelshein, arXiv 1805.02867): by thread, then by lanes and warps in a fixed order.
#pragma once

#include <cmath>

namespace zeropp::nn::cuda_ops {

/// e^x of x <= 0, by the special function unit: a softmax over a vocabulary would otherwise wait
/// for the arithmetic of fast_exp() and not for memory. Relative error below 2^-21 + 2^-23 |x| (PTX
/// ISA, ex2.approx); 0 from -87.4 down; NaN stays NaN.
__device__ __forceinline__ float softmax_exp(float x) {
  constexpr float kLog2e = 1.44269504088896341F;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kLog2e));
  return power;
}

/// Running largest value and sum: -infinity and 0 of no value. A NaN stays in the sum.
struct RunningSoftmax {
  float largest = -INFINITY;
  float sum = 0.0F;

  /// Value that exponents are taken relative to: the largest so far, or 0 where only -infinity was
  /// seen.
  __device__ static float base(float largest) { return largest == -INFINITY ? 0.0F : largest; }

  template <int N>
  __device__ __forceinline__ void add(const float (&values)[N]) {
    float top = largest;
#pragma unroll
    for (int k = 0; k < N; ++k) top = fmaxf(top, values[k]);  // not a NaN, which the sum keeps
    if (top > largest) {
      sum *= softmax_exp(largest - top);
      largest = top;
    }
    const float zero = base(top);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += softmax_exp(values[k] - zero);
  }

  __device__ __forceinline__ void join(RunningSoftmax other) {
    const float top = fmaxf(largest, other.largest);
    const float zero = base(top);
    sum = sum * softmax_exp(largest - zero) + other.sum * softmax_exp(other.largest - zero);
    largest = top;
  }

  /// Joins those of all threads of the block: the same for all of them. `scratch`: shared memory of
  /// this call alone.
  __device__ __forceinline__ void join_block(RunningSoftmax (&scratch)[32]) {
    join_lanes();
    if (blockDim.x == 32) return;
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) scratch[threadIdx.x / 32] = *this;
    __syncthreads();
    *this = lane < blockDim.x / 32 ? scratch[lane] : RunningSoftmax{};
    join_lanes();
  }

 private:
  __device__ __forceinline__ void join_lanes() {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      join({__shfl_xor_sync(0xFFFFFFFFU, largest, half), __shfl_xor_sync(0xFFFFFFFFU, sum, half)});
    }
  }
};

}  // namespace zeropp::nn::cuda_ops

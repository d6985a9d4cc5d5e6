// Threads side by side along a row: 16-byte accesses, rounding of what they hold, and sums over the
// threads of a row in a fixed order.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/core/half.hpp"

namespace zeropp::nn::cuda_ops {

/// W consecutive elements, each of which [i] gives as fp32: one access of 16 bytes, or one element
/// where rows are not aligned.
template <class T, int W>
struct alignas(W * sizeof(T)) Pack {
  T value[W];
  __device__ __forceinline__ float operator[](int i) const { return to_float(value[i]); }
};

/// Two elements a register: as elements, the compiler would give each a register of its own.
template <int W>
requires(W % 2 == 0) struct alignas(2 * W) Pack<Bf16, W> {
  std::uint32_t pair[W / 2];
  __device__ __forceinline__ float operator[](int i) const {
    return float_of(i % 2 == 0 ? pair[i / 2] << 16U : pair[i / 2] & 0xFFFF0000U);
  }
};

template <class T>
inline constexpr int kPack = 16 / sizeof(T);

template <int W, class T>
__device__ __forceinline__ Pack<T, W> load(const T* from) {
  return *reinterpret_cast<const Pack<T, W>*>(from);
}
template <int W, class T>
__device__ __forceinline__ void store(T* to, const Pack<T, W>& pack) {
  *reinterpret_cast<Pack<T, W>*>(to) = pack;
}

/// saturating_cast of every value.
template <class T, int W>
__device__ __forceinline__ Pack<T, W> rounded(const float (&values)[W]) {
  Pack<T, W> pack;
  if constexpr (std::is_same_v<T, Bf16> && W % 2 == 0) {
    // The hardware rounds two values in one instruction, to nearest even as well, but makes
    // infinities of large values and a NaN of its own: where a result is not finite, and only
    // there, the bits are worked out one by one.
    std::uint32_t exponents = 0;
#pragma unroll
    for (int i = 0; i < W; i += 2) {
      const __nv_bfloat162_raw pair = __floats2bfloat162_rn(values[i], values[i + 1]);
      pack.pair[i / 2] = pair.x | (static_cast<std::uint32_t>(pair.y) << 16U);
      // An exponent of ones carries into the place of the sign.
      exponents |= (pack.pair[i / 2] & 0x7F807F80U) + 0x00800080U;
    }
    if ((exponents & 0x80008000U) != 0) {
#pragma unroll
      for (int i = 0; i < W; i += 2) {
        pack.pair[i / 2] =
            saturating_cast<T>(values[i]).bits |
            (static_cast<std::uint32_t>(saturating_cast<T>(values[i + 1]).bits) << 16U);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) pack.value[i] = saturating_cast<T>(values[i]);
  }
  return pack;
}

/// True when rows of `stride` elements that begin at each of `bases` can be read 16 bytes at a
/// time.
template <class T>
bool rows_aligned(std::size_t stride, std::initializer_list<const T*> bases) {
  bool aligned = stride % kPack<T> == 0;
  for (const T* base : bases) aligned &= reinterpret_cast<std::uintptr_t>(base) % 16 == 0;
  return aligned;
}

/// Calls launch(pack size): kPack<T> where rows are aligned, else 1; as a compile-time constant.
template <class T, class Launch>
void with_pack(bool aligned, Launch launch) {
  if (aligned) return launch(std::integral_constant<int, kPack<T>>{});
  launch(std::integral_constant<int, 1>{});
}

/// Threads for a row of `packs` packs, so that each has about `kept` of them: whole warps, at least
/// one, at most `most` threads.
inline unsigned threads_for(std::size_t packs, std::size_t kept, unsigned most) {
  const std::size_t warps = (packs + 32 * kept - 1) / (32 * kept);
  return 32 * static_cast<unsigned>(std::clamp<std::size_t>(warps, 1, most / 32));
}

/// N sums over the threads of a row at once, known to all of them afterwards: lanes by halves, then
/// warps by halves. The threads of a row are those with its threadIdx.y, whole warps; where they
/// are more than one warp, `sync()` waits for all of them. `scratch`: shared memory of the block
/// for this call alone.
template <int N, class Sync>
__device__ __forceinline__ void row_sums(float (&sum)[N], float (&scratch)[N][32], Sync sync) {
  const auto over_lanes = [&] {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] += __shfl_xor_sync(0xFFFFFFFFU, sum[n], half);
    }
  };
  over_lanes();
  if (blockDim.x == 32) return;
  const unsigned warps = blockDim.x / 32;
  const unsigned first = threadIdx.y * warps;
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) {
#pragma unroll
    for (int n = 0; n < N; ++n) scratch[n][first + threadIdx.x / 32] = sum[n];
  }
  sync();
#pragma unroll
  for (int n = 0; n < N; ++n) sum[n] = lane < warps ? scratch[n][first + lane] : 0.0F;
  over_lanes();
}

/// The same for a block that has one row, or several of a warp each.
template <int N>
__device__ __forceinline__ void row_sums(float (&sum)[N], float (&scratch)[N][32]) {
  row_sums(sum, scratch, [] { __syncthreads(); });
}

}  // namespace zeropp::nn::cuda_ops

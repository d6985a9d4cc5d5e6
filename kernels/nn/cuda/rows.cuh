// Threads side by side along a row: 16-byte accesses, rounding of what they hold, and sums over the
// threads of a row in a fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

/// Hardware operations on two 16-bit elements in one register.
template <class T>
struct Pair;

template <>
struct Pair<Bf16> {
  static constexpr std::uint32_t kExponents = 0x7F807F80U;
  static constexpr std::uint32_t kCarry = 0x00800080U;  ///< the lowest bits of the exponents
  __device__ static float first(std::uint32_t pair) { return float_of(pair << 16U); }
  __device__ static float second(std::uint32_t pair) { return float_of(pair & 0xFFFF0000U); }
  __device__ static std::uint32_t nearest(float first, float second) {
    const __nv_bfloat162_raw pair = __floats2bfloat162_rn(first, second);
    return pair.x | (static_cast<std::uint32_t>(pair.y) << 16U);
  }
};

template <>
struct Pair<Fp16> {
  static constexpr std::uint32_t kExponents = 0x7C007C00U;
  static constexpr std::uint32_t kCarry = 0x04000400U;
  __device__ static float first(std::uint32_t pair) {
    return __half2float(__half(__half_raw{static_cast<std::uint16_t>(pair & 0xFFFFU)}));
  }
  __device__ static float second(std::uint32_t pair) { return first(pair >> 16U); }
  __device__ static std::uint32_t nearest(float first, float second) {
    const __half2_raw pair = __floats2half2_rn(first, second);
    return pair.x | (static_cast<std::uint32_t>(pair.y) << 16U);
  }
};

template <class T>
inline constexpr bool kPairs = sizeof(T) == 2;

/// Two elements a register: as elements, the compiler would give each a register of its own.
template <class T, int W>
requires(kPairs<T>&& W % 2 == 0) struct alignas(2 * W) Pack<T, W> {
  std::uint32_t pair[W / 2];
  __device__ __forceinline__ float operator[](int i) const {
    return i % 2 == 0 ? Pair<T>::first(pair[i / 2]) : Pair<T>::second(pair[i / 2]);
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

/// The nearest value of an activation's type. Beyond the range of fp16 that is an infinity, which
/// reaches the gradient's norm: a loss scale that is too large has to be seen. Elsewhere the
/// largest finite value.
template <class T>
__device__ __forceinline__ T rounded(float value) {
  if constexpr (std::is_same_v<T, Fp16>) {
    return round_to_fp16(value);
  } else {
    return saturating_cast<T>(value);
  }
}

/// Rounds every value as rounded(float) does, into a pack.
template <class T, int W>
__device__ __forceinline__ Pack<T, W> rounded(const float (&values)[W]) {
  Pack<T, W> pack;
  if constexpr (kPairs<T> && W % 2 == 0) {
    // The hardware rounds two values in one instruction, to nearest even as well, but makes
    // infinities of large values and a NaN of its own: where a result is not finite, and only
    // there, the bits are worked out one by one.
    std::uint32_t exponents = 0;
#pragma unroll
    for (int i = 0; i < W; i += 2) {
      pack.pair[i / 2] = Pair<T>::nearest(values[i], values[i + 1]);
      // An exponent of ones carries into the place of the sign.
      exponents |= (pack.pair[i / 2] & Pair<T>::kExponents) + Pair<T>::kCarry;
    }
    if ((exponents & 0x80008000U) != 0) {
#pragma unroll
      for (int i = 0; i < W; i += 2) {
        pack.pair[i / 2] = rounded<T>(values[i]).bits |
                           (static_cast<std::uint32_t>(rounded<T>(values[i + 1]).bits) << 16U);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) pack.value[i] = rounded<T>(values[i]);
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

/// Makes N sums over the threads of a row in a block that has one row, or several of a warp each.
template <int N>
__device__ __forceinline__ void row_sums(float (&sum)[N], float (&scratch)[N][32]) {
  row_sums(sum, scratch, [] { __syncthreads(); });
}

}  // namespace zeropp::nn::cuda_ops

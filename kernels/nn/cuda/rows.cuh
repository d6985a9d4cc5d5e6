// A block of threads a row: 16-byte accesses, the share of a row that a thread keeps in registers,
// and sums over the block in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/core/half.hpp"

namespace zeropp::nn::cuda_ops {

/// W consecutive elements: one access of 16 bytes, or one element where rows are not aligned.
template <class T, int W>
struct alignas(W * sizeof(T)) Pack {
  T value[W];
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

/// Packs of a row that one thread keeps in registers.
inline constexpr int kKept = 4;

/// Threads for a row of `packs` packs: enough to keep it in registers, at least a warp, at most
/// `most`; what is beyond is read again.
inline unsigned threads_for(std::size_t packs, unsigned most) {
  unsigned threads = 32;
  while (threads < most && static_cast<std::size_t>(threads) * kKept < packs) threads *= 2;
  return threads;
}

/// N sums over the block at once, known to all its threads afterwards: lanes by halves, then warps
/// in order. `scratch`: shared memory of this call alone, N x 32.
template <int N>
__device__ __forceinline__ void block_sums(float (&sum)[N], float (&scratch)[N][32]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      sum[n] += __shfl_xor_sync(0xFFFFFFFFU, sum[n], half);
    }
  }
  if (blockDim.x == 32) return;
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int n = 0; n < N; ++n) scratch[n][warp] = sum[n];
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    sum[n] = 0.0F;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) sum[n] += scratch[n][w];
  }
}

}  // namespace zeropp::nn::cuda_ops

// Accesses to arrays in global memory: four fp32 values in 16 bytes, and pointers read from a
// table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zeropp::optim {

/// Whether every pointer lies at a multiple of `bytes`, a power of two.
template <class... Pointers>
__device__ bool all_aligned(std::uintptr_t bytes, Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) | ...) & (bytes - 1)) == 0;
}

/// values[4 q .. 4 q + 3]; `values` is aligned to 16 bytes.
__device__ inline float4& quad(float* values, std::size_t q) {
  return reinterpret_cast<float4*>(values)[q];
}
__device__ inline const float4& quad(const float* values, std::size_t q) {
  return reinterpret_cast<const float4*>(values)[q];
}

/// A pointer to global memory that the compiler cannot know to be one: it saves every access a look
/// at its address.
template <class T>
__device__ T* global(T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

}  // namespace zeropp::optim

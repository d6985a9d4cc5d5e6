// Eight values of memory in the registers of one thread, as words: what the codec kernels load and
// store at once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/core/copy_maths.hpp"
#include "kernels/core/dtype.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec::cuda {

/// kWords words at `from`, which is aligned to their size or to 16 bytes, the smaller of the two.
template <int kWords>
__device__ __forceinline__ void load_words(const void* from, std::uint32_t (&words)[kWords]) {
  if constexpr (kWords == 1) {
    words[0] = *static_cast<const std::uint32_t*>(from);
  } else if constexpr (kWords == 2) {
    const uint2 pair = *static_cast<const uint2*>(from);
    words[0] = pair.x;
    words[1] = pair.y;
  } else {
    static_assert(kWords % 4 == 0);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = static_cast<const uint4*>(from)[i / 4];
      words[i] = four.x;
      words[i + 1] = four.y;
      words[i + 2] = four.z;
      words[i + 3] = four.w;
    }
  }
}

/// Stores kWords words to global memory at `to`, which is aligned to their size or to 16 bytes, the
/// smaller of the two.
template <int kWords>
__device__ __forceinline__ void store_words(const std::uint32_t (&words)[kWords], void* to) {
  if constexpr (kWords == 1) {
    *static_cast<std::uint32_t*>(to) = words[0];
  } else if constexpr (kWords == 2) {
    *static_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
    static_assert(kWords % 4 == 0);
    // In assembly: the compiler takes a plain store of four words apart where branches join.
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                   :
                   : "l"(__cvta_generic_to_global(static_cast<uint4*>(to) + i / 4)), "r"(words[i]),
                     "r"(words[i + 1]), "r"(words[i + 2]), "r"(words[i + 3])
                   : "memory");
    }
  }
}

/// Values of a vector.
inline constexpr int kWidth = 8;

template <class T>
struct Vector {
  static constexpr int kWords = kWidth * static_cast<int>(sizeof(T)) / 4;
  std::uint32_t words[kWords] = {};

  /// Value by value through the end of the vector: registers have no run-time index.
  __device__ __forceinline__ void push_front(T value) {
#pragma unroll
    for (int i = kWords - 1; i > 0; --i) {
      words[i] = sizeof(T) == 4 ? words[i - 1] : (words[i] << 16U) | (words[i - 1] >> 16U);
    }
    if constexpr (sizeof(T) == 4) {
      words[0] = bits_of(value);
    } else {
      words[0] = (words[0] << 16U) | value.bits;
    }
  }
  __device__ __forceinline__ T pop_front() {
    T value;
    if constexpr (sizeof(T) == 4) {
      value = float_of(words[0]);
    } else {
      value = {static_cast<std::uint16_t>(words[0])};
    }
#pragma unroll
    for (int i = 0; i < kWords - 1; ++i) {
      words[i] = sizeof(T) == 4 ? words[i + 1] : (words[i] >> 16U) | (words[i + 1] << 16U);
    }
    words[kWords - 1] = sizeof(T) == 4 ? 0U : words[kWords - 1] >> 16U;
    return value;
  }
};

/// The values in fp32, exactly. Which NaN a NaN becomes is not said.
template <class T>
__device__ __forceinline__ void widen(const Vector<T>& vector, float (&values)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      values[i] = float_of(vector.words[i]);
    } else if constexpr (std::is_same_v<T, Bf16>) {
      const std::uint32_t word = vector.words[i / 2];
      values[i] = float_of(i % 2 == 0 ? word << 16U : word & 0xFFFF0000U);
    } else {
      const std::uint32_t word = vector.words[i / 2];
      const __half_raw raw{static_cast<std::uint16_t>(i % 2 == 0 ? word & 0xFFFFU : word >> 16U)};
      values[i] = __half2float(__half(raw));
    }
  }
}

/// Larger of two magnitudes, in fp32, and NaN where either value is NaN: fmax would drop it.
__device__ __forceinline__ float larger_magnitude(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(fabsf(a)), "f"(fabsf(b)));
  return larger;
}
/// Larger magnitudes of two pairs of packed values, and NaN where either value is NaN; signs of the
/// result mean nothing. An A100 (sm_80) has no maximum of magnitudes.
#if __CUDA_ARCH__ >= 860
#define ZEROPP_LARGER_MAGNITUDES(type, result, a, b) \
  asm("max.NaN.xorsign.abs." type " %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b))
#else
#define ZEROPP_LARGER_MAGNITUDES(type, result, a, b) \
  asm("max.NaN." type " %0, %1, %2;" : "=r"(result) : "r"((a)&0x7FFF7FFFU), "r"((b)&0x7FFF7FFFU))
#endif
__device__ __forceinline__ std::uint32_t larger_magnitudes(Bf16, std::uint32_t a, std::uint32_t b) {
  std::uint32_t larger;
  ZEROPP_LARGER_MAGNITUDES("bf16x2", larger, a, b);
  return larger;
}
__device__ __forceinline__ std::uint32_t larger_magnitudes(Fp16, std::uint32_t a, std::uint32_t b) {
  std::uint32_t larger;
  ZEROPP_LARGER_MAGNITUDES("f16x2", larger, a, b);
  return larger;
}
#undef ZEROPP_LARGER_MAGNITUDES

/// The bits, in fp32, of the largest magnitude; not those of a finite value where a value is not
/// finite.
template <class T>
__device__ __forceinline__ std::uint32_t largest_magnitude(const Vector<T>& vector) {
  if constexpr (std::is_same_v<T, float>) {
    float largest = 0.0F;
#pragma unroll
    for (const std::uint32_t word : vector.words)
      largest = larger_magnitude(largest, float_of(word));
    return bits_of(largest);
  } else {
    std::uint32_t largest = larger_magnitudes(T{}, vector.words[0], vector.words[1]);
#pragma unroll
    for (int i = 2; i < vector.kWords; ++i) {
      largest = larger_magnitudes(T{}, largest, vector.words[i]);
    }
    const auto magnitude =
        static_cast<std::uint16_t>(max(largest & 0x7FFFU, (largest >> 16U) & 0x7FFFU));
    return bits_of(to_float(T{magnitude}));
  }
}

/// saturating_cast of every value.
template <class T>
__device__ __forceinline__ Vector<T> narrow(const float (&values)[kWidth]) {
  Vector<T> vector;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const T value = saturating_cast<T>(values[i]);
    if constexpr (std::is_same_v<T, float>) {
      vector.words[i] = bits_of(value);
    } else {
      vector.words[i / 2] |= static_cast<std::uint32_t>(value.bits) << (i % 2 * 16U);
    }
  }
  return vector;
}

/// Narrows values that round to finite ones as narrow() does: rounded by the hardware, which rounds
/// to nearest even as well.
template <class T>
__device__ __forceinline__ Vector<T> round_to(const float (&values)[kWidth]) {
  Vector<T> vector;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) vector.words[i] = bits_of(values[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; i += 2) {
      if constexpr (std::is_same_v<T, Bf16>) {
        const __nv_bfloat162_raw raw = __floats2bfloat162_rn(values[i], values[i + 1]);
        vector.words[i / 2] = raw.x | (static_cast<std::uint32_t>(raw.y) << 16U);
      } else {
        const __half2_raw raw = __floats2half2_rn(values[i], values[i + 1]);
        vector.words[i / 2] = raw.x | (static_cast<std::uint32_t>(raw.y) << 16U);
      }
    }
  }
  return vector;
}

/// Narrows finite values as narrow() does: what the hardware made infinite goes back to the largest
/// finite value.
template <class T>
__device__ __forceinline__ Vector<T> narrow_finite(const float (&values)[kWidth]) {
  Vector<T> vector = round_to<T>(values);
  if constexpr (!std::is_same_v<T, float>) {
    constexpr std::uint32_t infinity = std::is_same_v<T, Bf16> ? 0x7F80U : 0x7C00U;
#pragma unroll
    for (std::uint32_t& word : vector.words) {
      if ((word & 0x7FFFU) == infinity) word -= 1U;
      if ((word & 0x7FFF0000U) == infinity << 16U) word -= 0x10000U;
    }
  }
  return vector;
}

/// Values of one type as another: bit for bit where they are the same.
template <class To, class From>
__device__ __forceinline__ Vector<To> cast(const Vector<From>& from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else {
    float values[kWidth];
    widen(from, values);
    return narrow<To>(values);
  }
}

/// with_difference() of every value.
template <class T>
__device__ __forceinline__ Vector<T> with_differences(const Vector<T>& copy,
                                                      const float (&differences)[kWidth]) {
  float values[kWidth];
  widen(copy, values);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = base_of(values[i]) + differences[i];
  return narrow<T>(values);
}

/// fp32 values as memory of `dtype` would hold them: nearest, saturating, infinities and NaN kept.
/// Values of other types, and with fp32, as they are.
template <class T>
__device__ __forceinline__ void round_vector(Dtype dtype, Vector<T>& vector) {
  if constexpr (std::is_same_v<T, float>) {
    const auto round = [&]<class Narrow>(Narrow, float largest) {
      float values[kWidth];
      widen(vector, values);
#pragma unroll
      for (float& value : values) {
        if (is_finite_bits(bits_of(value))) value = fmaxf(fminf(value, largest), -largest);
      }
      widen(round_to<Narrow>(values), values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) vector.words[i] = bits_of(values[i]);
    };
    if (dtype == Dtype::bf16) round(Bf16{}, float_of(0x7F7F0000U));
    if (dtype == Dtype::fp16) round(Fp16{}, 65504.0F);
  }
}

}  // namespace zeropp::codec::cuda

// Vectors of the host for the codecs: the compiler's vector extension, which GCC and Clang
// translate for any processor, and how values of a memory dtype come into them and go out. A quad
// is four vectors of fp32: value 4 i + k of a chunk in lane i of vector k, so that codes that share
// a word on the wire share a lane, and the halves of a word in memory too.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/core/half.hpp"

namespace zeropp::codec {

#ifdef __AVX2__
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

template <class T, int kCount>
struct VectorOf {
  // NOLINTNEXTLINE(modernize-use-using): an alias takes no attribute that depends on a parameter
  typedef T Type __attribute__((vector_size(kCount * sizeof(T))));
};
template <class T, int kCount = kLanes>
using HostVector = typename VectorOf<T, kCount>::Type;

using Floats = HostVector<float>;
using Words = HostVector<std::uint32_t>;

/// Memory of any alignment.
template <class V>
inline V load_vector(const void* from) {
  V vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
template <class V>
inline void store_vector(const V& vector, void* to) {
  std::memcpy(to, &vector, sizeof(vector));
}

/// Lanes `begin`, `begin` + `step`, ... of a and b as one row.
template <int begin, int step, class V, int... i>
inline V pick(const V& a, const V& b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (begin + step * i)...);
}
/// Lane `begin` of a, then of b, then the next of a.
template <int begin, class V, int... i>
inline V zip(const V& a, const V& b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (begin + i / 2 + i % 2 * kLanes)...);
}
using LaneIndices = std::make_integer_sequence<int, kLanes>;

/// a and b hold one row; even and odd lanes of it apart, and back. Floats or Words.
template <class V>
inline void split(const V& a, const V& b, V& even, V& odd) {
  even = pick<0, 2>(a, b, LaneIndices());
  odd = pick<1, 2>(a, b, LaneIndices());
}
template <class V>
inline void merge(const V& even, const V& odd, V& a, V& b) {
  a = zip<0>(even, odd, LaneIndices());
  b = zip<kLanes / 2>(even, odd, LaneIndices());
}

inline Floats fused_multiply_add(const Floats& a, float b, const Floats& c) {
  Floats sum;
  for (int i = 0; i < kLanes; ++i) sum[i] = std::fma(a[i], b, c[i]);
  return sum;
}

/// The lower 16 bits of each lane as fp32, for finite values; and back, rounded to nearest even,
/// for values that round to finite ones.
inline Floats widen(Bf16, const Words& half) { return reinterpret_cast<Floats>(half << 16U); }
inline Words narrow(Bf16, const Floats& values) {
  const auto bits = reinterpret_cast<Words>(values);
  return (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
}
inline Floats widen(Fp16, const Words& half) {
  const Words sign = (half & 0x8000U) << 16U;
  const Words magnitude = half & 0x7FFFU;
  const auto subnormal = reinterpret_cast<Words>(__builtin_convertvector(magnitude, Floats) *
                                                 5.9604644775390625e-8F);  // 2^-24
  const Words normal = (magnitude << 13U) + (112U << 23U);
  return reinterpret_cast<Floats>(sign | (magnitude < 0x400U ? subnormal : normal));
}
inline Words narrow(Fp16, const Floats& values) {
  const auto bits = reinterpret_cast<Words>(values);
  const Words sign = (bits >> 16U) & 0x8000U;
  const Words magnitude = bits & 0x7FFFFFFFU;
  // Rounds as round_to_fp16() does.
  const auto subnormal =
      reinterpret_cast<Words>(reinterpret_cast<Floats>(magnitude) + 0.5F) - 0x3F000000U;
  const Words normal = (magnitude + 0xFFFU + ((magnitude >> 13U) & 1U) - 0x38000000U) >> 13U;
  return sign | (magnitude < 0x38800000U ? subnormal : normal);
}

struct Quad {
  static constexpr int kValues = 4 * kLanes;
  Floats values[4];
};

/// The next Quad::kValues values, which are finite where they are of 16 bits.
template <class Memory>
inline Quad load_quad(const Memory* memory) {
  Quad quad;
  Floats* const v = quad.values;
  if constexpr (std::is_same_v<Memory, float>) {
    const auto row = [&](int i) { return load_vector<Floats>(memory + i * kLanes); };
    Floats even[2];
    Floats odd[2];
    split(row(0), row(1), even[0], odd[0]);
    split(row(2), row(3), even[1], odd[1]);
    split(even[0], even[1], v[0], v[2]);
    split(odd[0], odd[1], v[1], v[3]);
  } else {
    Words first;
    Words second;
    split(load_vector<Words>(memory), load_vector<Words>(memory + 2 * kLanes), first, second);
    v[0] = widen(Memory{}, first & 0xFFFFU);
    v[1] = widen(Memory{}, first >> 16U);
    v[2] = widen(Memory{}, second & 0xFFFFU);
    v[3] = widen(Memory{}, second >> 16U);
  }
  return quad;
}

/// Values that round to finite ones of the memory dtype.
template <class Memory>
inline void store_quad(const Quad& quad, Memory* memory) {
  const Floats* const v = quad.values;
  if constexpr (std::is_same_v<Memory, float>) {
    Floats even[2];
    Floats odd[2];
    merge(v[0], v[2], even[0], even[1]);
    merge(v[1], v[3], odd[0], odd[1]);
    Floats row[4];
    merge(even[0], odd[0], row[0], row[1]);
    merge(even[1], odd[1], row[2], row[3]);
    store_vector(row[0], memory);
    store_vector(row[1], memory + kLanes);
    store_vector(row[2], memory + 2 * kLanes);
    store_vector(row[3], memory + 3 * kLanes);
  } else {
    const Words first = narrow(Memory{}, v[0]) | (narrow(Memory{}, v[1]) << 16U);
    const Words second = narrow(Memory{}, v[2]) | (narrow(Memory{}, v[3]) << 16U);
    Words row[2];
    merge(first, second, row[0], row[1]);
    store_vector(row[0], memory);
    store_vector(row[1], memory + 2 * kLanes);
  }
}

/// Lanes meet those that are `distance` away, then half as far.
template <int distance, class V, int... i>
inline auto largest_lane(const V& a, std::integer_sequence<int, i...> indices) {
  const V b = __builtin_shufflevector(a, a, (i ^ distance)...);
  const V larger = b > a ? b : a;
  if constexpr (distance > 1) {
    return largest_lane<distance / 2>(larger, indices);
  } else {
    return larger[0];
  }
}

/// The bits, in fp32, of the largest magnitude of `count` values, a multiple of 16; not those of a
/// finite value where one is not finite. Magnitudes compare as their bits do; unlike fmax this
/// drops no NaN.
template <class Memory>
inline std::uint32_t largest_magnitude(const Memory* values, std::size_t count) {
  constexpr int kStep = 16;
  using Bits = std::conditional_t<sizeof(Memory) == 4, std::uint32_t, std::uint16_t>;
  constexpr int kWidth = kLanes * 4 / static_cast<int>(sizeof(Bits));
  using V = HostVector<Bits, kWidth>;
  constexpr auto mask = static_cast<Bits>(Bits(-1) >> 1U);
  V most[kStep / kWidth] = {};
  for (std::size_t first = 0; first < count; first += kStep) {
    for (int k = 0; k < kStep / kWidth; ++k) {
      const V bits = load_vector<V>(values + first + k * kWidth) & mask;
      most[k] = bits > most[k] ? bits : most[k];
    }
  }
  for (const V& other : most) most[0] = other > most[0] ? other : most[0];
  const Bits largest = largest_lane<kWidth / 2>(most[0], std::make_integer_sequence<int, kWidth>());
  if constexpr (sizeof(Bits) == 4) {
    return largest;
  } else {
    return bits_of(to_float(Memory{largest}));
  }
}

}  // namespace zeropp::codec

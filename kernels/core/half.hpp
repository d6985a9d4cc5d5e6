// The 16-bit floating-point formats as plain bit patterns, with conversions written out on the
// bits: the same results on every back end, with no dependence on a compiler's own half types.
// Conversions to 16 bits round to nearest, ties to even. NaN becomes the format's canonical NaN.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/core/macros.hpp"

namespace zeropp {

/// The bits that every NaN written by a codec carries (IEEE 754 quiet NaN, positive, empty
/// payload).
inline constexpr std::uint32_t kCanonicalNan32 = 0x7FC00000U;
inline constexpr std::uint16_t kCanonicalNanBf16 = 0x7FC0U;
inline constexpr std::uint16_t kCanonicalNanFp16 = 0x7E00U;
inline constexpr float kLargestFinite32 = 3.40282346638528859812e38F;

ZEROPP_HD std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
ZEROPP_HD float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
/// Tested on the bits: comparisons and fmax may drop a NaN.
ZEROPP_HD bool is_nan_bits(std::uint32_t bits) { return (bits & 0x7FFFFFFFU) > 0x7F800000U; }
ZEROPP_HD bool is_finite_bits(std::uint32_t bits) { return (bits & 0x7F800000U) != 0x7F800000U; }

/// bfloat16: 1 sign, 8 exponent, 7 fraction bits.
struct Bf16 {
  std::uint16_t bits;
};

/// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits.
struct Fp16 {
  std::uint16_t bits;
};

ZEROPP_HD float to_float(float value) { return value; }
ZEROPP_HD float to_float(Bf16 value) {
  return float_of(static_cast<std::uint32_t>(value.bits) << 16U);
}

ZEROPP_HD float to_float(Fp16 value) {
  const std::uint32_t sign = (static_cast<std::uint32_t>(value.bits) & 0x8000U) << 16U;
  const std::uint32_t exponent = (value.bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = value.bits & 0x3FFU;
  if (exponent == 0x1FU) return float_of(sign | 0x7F800000U | (fraction << 13U));
  if (exponent != 0) return float_of(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
  // Zero and subnormals: fraction * 2^-24 is exact in fp32.
  const float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8F;
  return float_of(sign | bits_of(magnitude));
}

/// Nearest bf16; a finite value beyond the format's range becomes infinite.
ZEROPP_HD Bf16 round_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if (is_nan_bits(bits)) return {kCanonicalNanBf16};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

/// Nearest fp16; a finite value beyond the format's range becomes infinite.
ZEROPP_HD Fp16 round_to_fp16(float value) {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {kCanonicalNanFp16};
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // >= 65520
  if (magnitude < 0x38800000U) {
    // Subnormal results: adding 0.5 lets the adder round at the last place, 2^-24.
    const float shifted = float_of(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (bits_of(shifted) - 0x3F000000U))};
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13U))};
}

/// Conversion by destination type, so that templates over the memory type read the same.
/// Finite values saturate at the largest finite value of the format; infinities stay, NaN is
/// canonical.
template <class To>
ZEROPP_HD To saturating_cast(float value);

template <>
ZEROPP_HD float saturating_cast<float>(float value) {
  return is_nan_bits(bits_of(value)) ? float_of(kCanonicalNan32) : value;
}

template <>
ZEROPP_HD Bf16 saturating_cast<Bf16>(float value) {
  const Bf16 nearest = round_to_bf16(value);
  const bool overflowed = (nearest.bits & 0x7FFFU) == 0x7F80U && is_finite_bits(bits_of(value));
  return overflowed ? Bf16{static_cast<std::uint16_t>(nearest.bits - 1U)} : nearest;
}

template <>
ZEROPP_HD Fp16 saturating_cast<Fp16>(float value) {
  const Fp16 nearest = round_to_fp16(value);
  const bool overflowed = (nearest.bits & 0x7FFFU) == 0x7C00U && is_finite_bits(bits_of(value));
  return overflowed ? Fp16{static_cast<std::uint16_t>(nearest.bits - 1U)} : nearest;
}

/// Smallest bf16 that is not under `value` (value >= 0, finite); at most the largest finite bf16.
ZEROPP_HD Bf16 round_up_to_bf16(float value) {
  const std::uint32_t up = (bits_of(value) + 0xFFFFU) >> 16U;
  return {static_cast<std::uint16_t>(up < 0x7F80U ? up : 0x7F7FU)};
}

}  // namespace zeropp

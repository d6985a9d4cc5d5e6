// The symmetric integer rule, b bits: q = clamp(rne(x / s), -qmax, qmax), qmax = 2^(b-1) - 1, with
// s = max|x| / qmax stored as bf16, rounded up. Block-based quantization of ZeRO++ (paper section
// 3.1), symmetric form.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

template <int Bits>
struct SymmetricInt {
  static_assert(Bits >= 2 && Bits <= 8);
  using Scale = Bf16;
  using Code = std::int8_t;

  static constexpr std::size_t bits = Bits;
  static constexpr std::size_t minimum_block = 32;
  static constexpr std::size_t maximum_block = kLargestBlock;
  static constexpr float qmax = static_cast<float>((1 << (Bits - 1)) - 1);

  /// Never under absmax / qmax, but at most the largest finite bf16. A scale that would be
  /// subnormal is zero, and so is its block: reciprocals stay finite.
  ZEROPP_HD static Bf16 scale_of(float absmax) {
    const Bf16 scale = round_up_to_bf16(divide_by<static_cast<int>(qmax)>(absmax));
    return scale.bits < 0x0080U ? Bf16{0} : scale;
  }
  ZEROPP_HD static Bf16 non_finite_scale() { return {kCanonicalNanBf16}; }
  ZEROPP_HD static float scale_value(Bf16 stored) { return to_float(stored); }
  ZEROPP_HD static float reciprocal(Bf16 stored) {
    return stored.bits == 0 ? 0.0F : invert(to_float(stored));
  }

  ZEROPP_HD static Code encode(float value, float reciprocal) {
    // Magnitudes compare as their bits do.
    const std::uint32_t scaled = bits_of(multiply(value, reciprocal));
    const std::uint32_t magnitude = scaled & 0x7FFFFFFFU;
    constexpr std::uint32_t limit = std::bit_cast<std::uint32_t>(qmax);
    const float clamped =
        float_of((scaled & 0x80000000U) | (magnitude < limit ? magnitude : limit));
    // 1.5 * 2^23: the sum's last place is 1, so the adder rounds to nearest even and the low bits
    // of the sum are the integer in two's complement.
    return static_cast<Code>(bits_of(add(clamped, 12582912.0F)) & 0xFFU);
  }

  /// q * s, exact; at the top of fp32's range, where the rounding up of s can make it infinite, the
  /// largest finite value: one step down in the bits.
  ZEROPP_HD static float decode(Code code, float scale) {
    const std::uint32_t value = bits_of(multiply(static_cast<float>(code), scale));
    return float_of((value & 0x7FFFFFFFU) == 0x7F800000U ? value - 1U : value);
  }
  ZEROPP_HD static float accumulate(Code code, float scale, float sum) {
    return fused_multiply_add(static_cast<float>(code), scale, sum);
  }

  /// Half a step, and the rounding of x * (1 / s). A block of scale zero was under qmax * 2^-126.
  static constexpr double error_bound(double /*value*/, double scale) {
    return scale == 0 ? double{qmax} * 0x1p-126 : scale * (0.5 + 0x1p-15);
  }
};

}  // namespace zeropp::codec

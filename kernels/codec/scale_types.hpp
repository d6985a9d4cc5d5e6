// How a rule stores the scale of a block: bf16 rounded up (the default), fp32 (+s32), or a power of
// two in one byte (E8M0 of the OCP Microscaling specification 1.0).
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// Products of a code and such a scale are exact in fp32, so that sums may fuse them.
struct Bf16Scale {
  using Type = Bf16;
  static constexpr bool exact_products = true;

  /// Never under `scale`, but at most the largest finite bf16; zero where it would be subnormal, so
  /// that reciprocals stay finite.
  ZEROPP_HD static Bf16 store(float scale) {
    const Bf16 stored = round_up_to_bf16(scale);
    return stored.bits < 0x0080U ? Bf16{0} : stored;
  }
  /// The largest bf16 that is not above `value`; below all finite ones it is infinite.
  ZEROPP_HD static Bf16 store_down(float value) {
    const std::uint32_t bits = bits_of(value);
    const bool up = (bits & 0x80000000U) != 0;  // of a negative value the magnitude goes up
    return {static_cast<std::uint16_t>((bits + (up ? 0xFFFFU : 0U)) >> 16U)};
  }
  ZEROPP_HD static Bf16 nan() { return {kCanonicalNanBf16}; }
  ZEROPP_HD static float value(Bf16 stored) { return to_float(stored); }
};

struct Fp32Scale {
  using Type = float;
  static constexpr bool exact_products = false;

  ZEROPP_HD static float store(float scale) { return bits_of(scale) < 0x00800000U ? 0.0F : scale; }
  ZEROPP_HD static float store_down(float value) { return value; }
  ZEROPP_HD static float nan() { return float_of(kCanonicalNan32); }
  ZEROPP_HD static float value(float stored) { return stored; }
};

/// 2^(exponent - 127); 255 is NaN. There is no zero.
struct E8m0 {
  std::uint8_t exponent;
};

}  // namespace zeropp::codec

// Small floating-point elements by block: sign, exponent and mantissa, subnormals, no infinities; a
// value times the reciprocal of its block's scale is rounded to the nearest element, ties to even,
// and saturates at the largest finite one. ScaledToLargest makes max|x| the largest element;
// PowerOfTwo is the scale of the OCP Microscaling specification 1.0, section 6.3: 2^(floor(log2
// max|x|) - emax).
#pragma once

#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/block_range.hpp"
#include "kernels/codec/rounding.hpp"
#include "kernels/codec/rule.hpp"
#include "kernels/codec/scale_types.hpp"
#include "kernels/codec/transforms.hpp"

namespace zeropp::codec {

/// The elements that RuleNumbers describe. 2^exponent for exponents of normal fp32 values is
/// written in the bits.
struct SmallFloat {
  unsigned mantissa_bits;
  unsigned bias;
  std::uint32_t largest_code;

  ZEROPP_HD explicit SmallFloat(const RuleNumbers& numbers)
      : mantissa_bits(numbers.mantissa_bits),
        bias(numbers.bias),
        largest_code(numbers.largest_code) {}
  ZEROPP_HD constexpr SmallFloat(unsigned mantissa_bits_, unsigned bias_,
                                 std::uint32_t largest_code_)
      : mantissa_bits(mantissa_bits_), bias(bias_), largest_code(largest_code_) {}

  /// The nearest element's magnitude bits.
  [[nodiscard]] ZEROPP_HD std::uint32_t round(float magnitude) const {
    const std::uint32_t bits = bits_of(magnitude);
    std::uint32_t code = 0;
    if (bits < (128U - bias) << 23U) {
      // Subnormal: of 2^23 quanta the last place is a quantum, so the adder rounds.
      const float ones = float_of((128U - bias - mantissa_bits + 23U) << 23U);
      code = bits_of(add(magnitude, ones)) - bits_of(ones);
    } else {
      const unsigned dropped = 23U - mantissa_bits;
      const std::uint32_t half = (1U << (dropped - 1U)) - 1U;
      code =
          ((bits + half + ((bits >> dropped) & 1U)) >> dropped) - ((127U - bias) << mantissa_bits);
    }
    return code < largest_code ? code : largest_code;
  }
  [[nodiscard]] ZEROPP_HD float value(std::uint32_t code) const {
    if (code < 1U << mantissa_bits) {
      const float quantum = float_of((128U - bias - mantissa_bits) << 23U);
      return multiply(static_cast<float>(code), quantum);
    }
    return float_of((code + ((127U - bias) << mantissa_bits)) << (23U - mantissa_bits));
  }
  [[nodiscard]] ZEROPP_HD float largest() const { return value(largest_code); }

  /// The code of `bits` bits, sign first. A zero keeps its sign, and so does what is rounded to it.
  [[nodiscard]] ZEROPP_HD std::uint32_t encode(float scaled, unsigned bits) const {
    const std::uint32_t word = bits_of(scaled);
    return ((word >> 31U) << (bits - 1U)) | round(float_of(word & 0x7FFFFFFFU));
  }
  [[nodiscard]] ZEROPP_HD float decode(std::uint32_t code, unsigned bits) const {
    const std::uint32_t sign = code >> (bits - 1U);
    const std::uint32_t magnitude = code & ((1U << (bits - 1U)) - 1U);
    return float_of(bits_of(value(magnitude)) | (sign << 31U));
  }
};

/// max|x| becomes the largest element; stored as bf16, rounded up.
struct ScaledToLargest {
  using Type = Bf16;
  ZEROPP_HD static Bf16 store(float absmax, const SmallFloat& element) {
    return Bf16Scale::store(divide(absmax, element.largest()));
  }
  ZEROPP_HD static Bf16 nan() { return Bf16Scale::nan(); }
  ZEROPP_HD static float value(Bf16 stored) { return to_float(stored); }
};

/// Powers of two from 2^-127 to 2^127; a block of zeros has the smallest.
struct PowerOfTwo {
  using Type = E8m0;
  ZEROPP_HD static E8m0 store(float absmax, const SmallFloat& element) {
    const std::uint32_t exponent = bits_of(absmax) >> 23U;  // 0 of subnormals: below all of E8M0
    const std::uint32_t most = (bits_of(element.largest()) >> 23U) - 127U;
    return {static_cast<std::uint8_t>(exponent > most ? exponent - most : 0U)};
  }
  ZEROPP_HD static E8m0 nan() { return {0xFFU}; }
  ZEROPP_HD static float value(E8m0 stored) {
    if (stored.exponent == 0xFFU) return float_of(kCanonicalNan32);
    return float_of(stored.exponent == 0 ? 0x00400000U
                                         : static_cast<std::uint32_t>(stored.exponent) << 23U);
  }
};

template <class Scale>
struct FloatRule {
  using Reader = FloatRule;
  using Rounding = Nearest;
  using Range = Magnitude;
  using Stored = typename Scale::Type;
  using Transform = Identity;
  static constexpr bool scales_images = false;
  struct Factors {
    float scale;
    bool zeros;
    [[nodiscard]] ZEROPP_HD const Factors& at(int /*place*/) const { return *this; }
  };
  RuleNumbers numbers;

  [[nodiscard]] ZEROPP_HD Stored stored(const Range& range) const {
    return range.finite() ? Scale::store(range.largest(), SmallFloat(numbers)) : Scale::nan();
  }
  [[nodiscard]] ZEROPP_HD Factors encoding(Stored stored) const {
    const float scale = Scale::value(stored);
    if (!(scale > 0)) return {0.0F, true};
    return {invert(scale), false};
  }
  [[nodiscard]] ZEROPP_HD std::uint32_t encode(float x, const Factors& factors) const {
    return SmallFloat(numbers).encode(multiply(x, factors.scale), numbers.bits);
  }
  [[nodiscard]] ZEROPP_HD Factors decoding(Stored stored) const {
    return {Scale::value(stored), false};
  }
  [[nodiscard]] ZEROPP_HD float decode(std::uint32_t code, const Factors& factors) const {
    return saturated(multiply(value_of(code), factors.scale));
  }
  /// Products are exact, so that one rounding is that of the sum.
  [[nodiscard]] ZEROPP_HD float accumulate(std::uint32_t code, const Factors& factors,
                                           float sum) const {
    return fused_multiply_add(value_of(code), factors.scale, sum);
  }

 private:
  [[nodiscard]] ZEROPP_HD float value_of(std::uint32_t code) const {
    return SmallFloat(numbers).decode(code, numbers.bits);
  }
};

}  // namespace zeropp::codec

// Integers of b bits by block, with options as types: Symmetric is q = rne(x / s), clamped, with
// s = max|x| / steps; `+wide` has other limits and steps. Asymmetric (+asym) is q = rne((x - m) /
// s) with the minimum m stored beside s = (max - m) / (2^b - 1).
#pragma once

#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/block_range.hpp"
#include "kernels/codec/rule.hpp"
#include "kernels/codec/transforms.hpp"

namespace zeropp::codec {

/// The code of `value`, clamped: 1.5 * 2^23 lets the adder round to nearest even, and the low bits
/// of the sum are the integer in two's complement.
ZEROPP_HD std::uint32_t round_to_code(float value, float lowest, float highest) {
  const float above = value < lowest ? lowest : value;
  return bits_of(add(above > highest ? highest : above, 12582912.0F));
}

template <class Scale, class TransformType>
struct SymmetricRule {
  using Range = Magnitude;
  using Stored = typename Scale::Type;
  using Transform = TransformType;
  struct Factors {
    float scale;
    bool zeros;
  };
  RuleNumbers numbers;

  /// Rotated values beyond are treated as an overflow: so no sum of the inverse leaves fp32's
  /// range.
  static constexpr float kLargestRotated = 0x1p122F;

  [[nodiscard]] ZEROPP_HD Stored stored(const Range& range) const {
    if (!range.finite()) return Scale::nan();
    if (Transform::rotates && range.largest() > kLargestRotated) return Scale::nan();
    return Scale::store(divide(range.largest(), numbers.steps));
  }
  [[nodiscard]] ZEROPP_HD Factors encoding(Stored stored) const {
    const float scale = Scale::value(stored);
    if (!(scale > 0)) return {0.0F, true};
    return {invert(scale), false};
  }
  [[nodiscard]] ZEROPP_HD std::uint32_t encode(float x, const Factors& factors) const {
    return round_to_code(multiply(x, factors.scale), numbers.lowest, numbers.highest);
  }
  [[nodiscard]] ZEROPP_HD Factors decoding(Stored stored) const {
    return {Scale::value(stored), false};
  }
  [[nodiscard]] ZEROPP_HD float decode(std::uint32_t code, const Factors& factors) const {
    return saturated(multiply(value_of(code), factors.scale));
  }
  [[nodiscard]] ZEROPP_HD float accumulate(std::uint32_t code, const Factors& factors,
                                           float sum) const {
    if constexpr (Scale::exact_products) {
      return fused_multiply_add(value_of(code), factors.scale, sum);
    } else {
      return add(sum, decode(code, factors));
    }
  }

 private:
  /// Sign-extended.
  [[nodiscard]] ZEROPP_HD float value_of(std::uint32_t code) const {
    const unsigned unused = 32U - numbers.bits;
    return static_cast<float>(static_cast<std::int32_t>(code << unused) >> unused);
  }
};

template <class Scale>
struct AsymmetricRule {
  using Range = Extremes;
  using Transform = Identity;
  struct Stored {
    typename Scale::Type scale;
    typename Scale::Type minimum;
  };
  struct Factors {
    float scale;
    float minimum;
    bool zeros;
  };
  RuleNumbers numbers;

  [[nodiscard]] ZEROPP_HD Stored stored(const Range& range) const {
    if (range.finite()) {
      // The sum makes +0 of -0.
      const auto minimum = Scale::store_down(add(range.smallest(), 0.0F));
      const float extent = add(range.largest(), -Scale::value(minimum));
      if (is_finite_bits(bits_of(extent))) {
        return {Scale::store(divide(extent, numbers.steps)), minimum};
      }
    }
    return {Scale::nan(), typename Scale::Type{}};
  }
  [[nodiscard]] ZEROPP_HD Factors encoding(const Stored& stored) const {
    const float scale = Scale::value(stored.scale);
    if (!(scale > 0)) return {0.0F, 0.0F, true};
    return {invert(scale), Scale::value(stored.minimum), false};
  }
  [[nodiscard]] ZEROPP_HD std::uint32_t encode(float x, const Factors& factors) const {
    return round_to_code(multiply(add(x, -factors.minimum), factors.scale), numbers.lowest,
                         numbers.highest);
  }
  [[nodiscard]] ZEROPP_HD Factors decoding(const Stored& stored) const {
    return {Scale::value(stored.scale), Scale::value(stored.minimum), false};
  }
  [[nodiscard]] ZEROPP_HD float decode(std::uint32_t code, const Factors& factors) const {
    const float above = multiply(static_cast<float>(code), factors.scale);
    return saturated(add(factors.minimum, above));
  }
  [[nodiscard]] ZEROPP_HD float accumulate(std::uint32_t code, const Factors& factors,
                                           float sum) const {
    return add(sum, decode(code, factors));
  }
};

}  // namespace zeropp::codec

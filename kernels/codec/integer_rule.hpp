// Integers of b bits by block, with options as types: Symmetric is q = round(x / s), clamped, with
// s = max|x| / steps; `+wide` has other limits and steps. Asymmetric (+asym) is q = round((x - m) /
// s) with the minimum m stored beside s = (max - m) / (2^b - 1). Images of both ways to round
// (rounding.hpp) are read alike.
#pragma once

#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/block_range.hpp"
#include "kernels/codec/rounding.hpp"
#include "kernels/codec/rule.hpp"
#include "kernels/codec/transforms.hpp"

namespace zeropp::codec {

template <class Scale, class TransformType, class RoundingType = Nearest>
struct SymmetricRule {
  using Reader = SymmetricRule<Scale, TransformType>;
  using Rounding = RoundingType;
  using Range = Magnitude;
  using Stored = typename Scale::Type;
  using Transform = TransformType;
  static constexpr bool scales_images = false;
  struct Factors {
    float scale;
    bool zeros;
    [[nodiscard]] ZEROPP_HD const Factors& at(int /*place*/) const { return *this; }
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
  [[nodiscard]] ZEROPP_HD std::uint32_t encode(float x, const Factors& factors,
                                               std::uint32_t word = 0) const {
    return Rounding::code(multiply(x, factors.scale), numbers.lowest, numbers.highest, word);
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

template <class Scale, class RoundingType = Nearest>
struct AsymmetricRule {
  using Reader = AsymmetricRule<Scale>;
  using Rounding = RoundingType;
  using Range = Extremes;
  using Transform = Identity;
  static constexpr bool scales_images = false;
  struct Stored {
    typename Scale::Type scale;
    typename Scale::Type minimum;
  };
  struct Factors {
    float scale;
    float minimum;
    bool zeros;
    [[nodiscard]] ZEROPP_HD const Factors& at(int /*place*/) const { return *this; }
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
  [[nodiscard]] ZEROPP_HD std::uint32_t encode(float x, const Factors& factors,
                                               std::uint32_t word = 0) const {
    return Rounding::code(multiply(add(x, -factors.minimum), factors.scale), numbers.lowest,
                          numbers.highest, word);
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

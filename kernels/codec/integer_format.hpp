// Code that the integer formats of every width share: options, and which rule runs with them.
//   +wide   all 2^b levels: s = max|x| / 2^(b-1); the largest positive value clips
//   +asym   levels from the block's minimum, which is stored beside the scale, to its maximum
//   +s32    scale (and minimum) as fp32 instead of bf16
//   +sr     rounds down or up by chance, in proportion: right on average (draw.hpp)
//   +had32  values are rotated by 32-point Hadamard transforms before they are quantized
// A block whose range (+asym) or rotation (+had32) overflows fp32 is treated as one that is not
// finite.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "kernels/codec/format.hpp"
#include "kernels/codec/rule_ops.hpp"

namespace zeropp::codec {

/// Codes of Symmetric rules; `wide`: all of them.
constexpr RuleNumbers symmetric_numbers(int bits, bool wide) {
  const auto levels = static_cast<float>(1 << (bits - 1));
  RuleNumbers numbers;
  numbers.bits = static_cast<unsigned>(bits);
  numbers.highest = levels - 1;
  numbers.lowest = wide ? -levels : 1 - levels;
  numbers.steps = wide ? levels : levels - 1;
  return numbers;
}
constexpr RuleNumbers asymmetric_numbers(int bits) {
  RuleNumbers numbers;
  numbers.bits = static_cast<unsigned>(bits);
  numbers.steps = numbers.highest = static_cast<float>((1 << bits) - 1);
  return numbers;
}

/// By how much the largest of 32 rotated values may exceed the largest of those that went in.
inline constexpr double kSpread = 5.656854249492381;  // sqrt(32)

/// Half a step, or a whole one where the largest value clips or chance rounds, and the rounding of
/// x * (1 / s); of a block with scale zero, all of it. After a rotation a value may be sqrt(32)
/// times as large, and so may be the error that the rotation back makes of 32.
template <class Rule>
double symmetric_error_bound(const RuleNumbers& numbers, float /*x*/, float absmax) {
  const double flushed = double{numbers.steps} * 0x1p-126;
  const double rounded = Rule::Rounding::draws ? 1.0 : 0.5;
  const double step = std::max(rounded, double{numbers.steps} - double{numbers.highest}) + 0x1p-15;
  if constexpr (Rule::Transform::rotates) {
    const double scale = absmax * kSpread / numbers.steps * (1 + 0x1p-7);
    return (scale * step + flushed) * kSpread + absmax * 0x1p-18;
  } else {
    const Rule rule{numbers};
    Magnitude range;
    range.see(absmax);
    const double scale = rule.decoding(rule.stored(range)).scale;
    return scale == 0 ? flushed : scale * step;
  }
}

/// The minimum rounded down may widen the range by 2^-7 of itself; differences and sums of fp32
/// values are rounded.
template <class Rule>
double asymmetric_error_bound(const RuleNumbers& numbers, float /*x*/, float absmax) {
  const double extent = 2.0 * absmax * (1 + 0x1p-7);
  const double scale = extent / numbers.steps * (1 + 0x1p-7);
  const double flushed = double{numbers.steps} * 0x1p-126;
  const double rounded = Rule::Rounding::draws ? 1.0 : 0.5;
  return scale * (rounded + 0x1p-15) + absmax * 0x1p-21 + flushed;
}

/// The options of an integer format, and how it runs with them.
template <int Bits>
struct IntegerOptions {
  static_assert(Bits >= 2 && Bits <= 8);
  static constexpr std::string_view options[] = {"asym", "had32", "s32", "sr", "wide"};
  static constexpr OptionConflict conflicts[] = {
      {"asym", "wide", "asym has all levels as it is; leave one of them out"},
      {"asym", "had32", "rotated values have no common offset; leave one of them out"},
  };

  static Variant with_options(std::span<const std::string> given) {
    const auto has = [&](std::string_view option) {
      return std::ranges::find(given, option) != given.end();
    };
    return has("sr") ? with_rounding<Stochastic>(has) : with_rounding<Nearest>(has);
  }

 private:
  template <class Rounding, class Has>
  static Variant with_rounding(const Has& has) {
    return has("s32") ? with_scale<Fp32Scale, Rounding>(has) : with_scale<Bf16Scale, Rounding>(has);
  }
  template <class Scale, class Rounding, class Has>
  static Variant with_scale(const Has& has) {
    if (has("asym")) {
      using Rule = AsymmetricRule<Scale, Rounding>;
      return rule_variant<Rule>(asymmetric_numbers(Bits), asymmetric_error_bound<Rule>);
    }
    return has("had32") ? symmetric<SymmetricRule<Scale, Hadamard32, Rounding>>(has("wide"))
                        : symmetric<SymmetricRule<Scale, Identity, Rounding>>(has("wide"));
  }
  template <class Rule>
  static Variant symmetric(bool wide) {
    Variant variant =
        rule_variant<Rule>(symmetric_numbers(Bits, wide), symmetric_error_bound<Rule>);
    if (Rule::Transform::rotates) variant.rms_share = 1 / kSpread;
    // Half of the blocks lose up to a step of their largest value, at every hop.
    if (wide) variant.slope_tolerance = 0.75 / (1 << Bits);
    return variant;
  }
};

/// A width without kernels of its own.
template <int Bits>
struct IntegerFormat : IntegerOptions<Bits> {
  static constexpr std::size_t bits = Bits;
  static constexpr std::size_t default_block = 128;
  static constexpr std::size_t minimum_block = 32;
  static constexpr std::size_t maximum_block = kLargestBlock;
  static Variant variant(std::span<const std::string> given) {
    return IntegerOptions<Bits>::with_options(given);
  }
};

}  // namespace zeropp::codec

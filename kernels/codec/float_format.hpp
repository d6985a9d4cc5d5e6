// Code that the formats of small floating-point elements share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/codec/format.hpp"
#include "kernels/codec/rule_ops.hpp"

namespace zeropp::codec {

/// Half the distance of neighbouring elements, or what is beyond the largest one, and the rounding
/// of x * (1 / s); of a block with scale zero, all of it.
template <class Scale>
double float_error_bound(const RuleNumbers& numbers, float x, float absmax) {
  const SmallFloat element(numbers);
  const double largest = element.largest();
  const double scale = Scale::value(Scale::store(absmax, element));
  if (scale == 0) return largest * 0x1p-126;
  const double magnitude = std::fabs(double{x});
  const double relative = std::ldexp(magnitude, -static_cast<int>(numbers.mantissa_bits) - 1);
  const double subnormal = scale * element.value(1) / 2;
  return std::max({relative, subnormal, magnitude - largest * scale}) + magnitude * 0x1p-20;
}

/// Elements of 1 + kExponentBits + kMantissaBits bits, of which `largest_code` is the largest
/// finite one.
template <int kExponentBits, int kMantissaBits, std::uint32_t kLargestCode, class Scale>
struct FloatFormat {
  static constexpr std::size_t bits = 1 + kExponentBits + kMantissaBits;
  static Variant variant(std::span<const std::string> /*options*/) {
    RuleNumbers numbers;
    numbers.bits = bits;
    numbers.mantissa_bits = kMantissaBits;
    numbers.bias = (1U << (kExponentBits - 1)) - 1U;
    numbers.largest_code = kLargestCode;
    return rule_variant<FloatRule<Scale>>(numbers, float_error_bound<Scale>);
  }
};

/// One bf16 scale per block of any size.
template <int kExponentBits, int kMantissaBits, std::uint32_t kLargestCode>
struct ScaledFloatFormat
    : FloatFormat<kExponentBits, kMantissaBits, kLargestCode, ScaledToLargest> {
  static constexpr std::size_t default_block = 128;
  static constexpr std::size_t minimum_block = 32;
  static constexpr std::size_t maximum_block = kLargestBlock;
};

/// OCP Microscaling 1.0: blocks of 32 with one E8M0 scale.
template <int kExponentBits, int kMantissaBits, std::uint32_t kLargestCode>
struct MicroscalingFormat : FloatFormat<kExponentBits, kMantissaBits, kLargestCode, PowerOfTwo> {
  static constexpr std::size_t default_block = 32;
  static constexpr std::size_t minimum_block = 32;
  static constexpr std::size_t maximum_block = 32;
};

}  // namespace zeropp::codec

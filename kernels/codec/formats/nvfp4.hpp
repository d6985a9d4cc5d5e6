// NVFP4: E2M1 elements in blocks of 16 with an E4M3 scale each, and one fp32 scale per image. After
// the payload and the block scales an image has 16 bytes more: the fp32 scale, and zeros.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "kernels/codec/nvfp4_rule.hpp"
#include "kernels/codec/rule_ops.hpp"

namespace zeropp::codec::format::nvfp4 {

struct Format {
  static constexpr std::string_view name = "nvfp4";
  static constexpr std::string_view summary =
      "E2M1 elements, one E4M3 scale a block of 16, one fp32 scale an image";
  static constexpr std::size_t bits = 4;
  static constexpr std::size_t default_block = 16;
  static constexpr std::size_t minimum_block = 16;
  static constexpr std::size_t maximum_block = 16;
  /// Steps are wide, and not even.
  static constexpr double slope_tolerance = 0.02;

  static Variant variant(std::span<const std::string> /*options*/) {
    RuleNumbers numbers;
    numbers.bits = bits;
    numbers.mantissa_bits = 1;
    numbers.bias = 1;
    numbers.largest_code = 0x7;
    Variant variant = rule_variant<Nvfp4Rule>(numbers, error_bound);
    variant.unit = kGroup;
    variant.scale_bytes = 1;
    return variant;
  }

 private:
  /// Whatever the image: all of a value in a block that is small beside the image's largest, whose
  /// scale may be zero or coarse; else half the widest step, which needs max|x| >= 5 scales.
  static double error_bound(const RuleNumbers&, float x, float absmax) {
    return std::max(std::fabs(double{x}), 0.2 * absmax) * (1 + 0x1p-20);
  }
};

}  // namespace zeropp::codec::format::nvfp4

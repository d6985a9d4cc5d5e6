// 8-bit floating point with 2 mantissa bits and a largest value of 57344 (E5M2
// of the OCP 8-bit specification), one bf16 scale per block.
#pragma once

#include <string_view>

#include "kernels/codec/float_format.hpp"

namespace zeropp::codec::format::fp8e5m2 {

struct Format : ScaledFloatFormat<5, 2, 0x7B> {
  static constexpr std::string_view name = "fp8e5m2";
  static constexpr std::string_view summary = "E5M2 elements, one bf16 scale a block";
  /// A power of two stands for more values above it than below: more is rounded down than up.
  static constexpr double slope_tolerance = 0.01;
};

}  // namespace zeropp::codec::format::fp8e5m2

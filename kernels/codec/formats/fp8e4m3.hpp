// 8-bit floating point with 3 mantissa bits and a largest value of 448 (E4M3 of
// the OCP 8-bit specification), one bf16 scale per block.
#pragma once

#include <string_view>

#include "kernels/codec/float_format.hpp"

namespace zeropp::codec::format::fp8e4m3 {

struct Format : ScaledFloatFormat<4, 3, 0x7E> {
  static constexpr std::string_view name = "fp8e4m3";
  static constexpr std::string_view summary = "E4M3 elements, one bf16 scale a block";
  /// A power of two stands for more values above it than below: more is rounded down than up.
  static constexpr double slope_tolerance = 0.003;
};

}  // namespace zeropp::codec::format::fp8e4m3

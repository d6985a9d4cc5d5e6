// MXFP8 of the OCP Microscaling specification with E4M3 elements, whose largest
// value is 448.
#pragma once

#include <string_view>

#include "kernels/codec/float_format.hpp"

namespace zeropp::codec::format::mxfp8 {

struct Format : MicroscalingFormat<4, 3, 0x7E> {
  static constexpr std::string_view name = "mxfp8";
  static constexpr std::string_view summary = "E4M3 elements, one power of two a block of 32";
  /// Values from 448 to 512 scales are clipped.
  static constexpr double slope_tolerance = 0.015;
};

}  // namespace zeropp::codec::format::mxfp8

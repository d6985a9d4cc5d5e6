// MXFP4 of the OCP Microscaling specification: E2M1 elements, whose largest
// value is 6.
#pragma once

#include <string_view>

#include "kernels/codec/float_format.hpp"

namespace zeropp::codec::format::mxfp4 {

struct Format : MicroscalingFormat<2, 1, 0x7> {
  static constexpr std::string_view name = "mxfp4";
  static constexpr std::string_view summary = "E2M1 elements, one power of two a block of 32";
  /// Values from 6 to 8 scales are clipped, and steps are wide.
  static constexpr double slope_tolerance = 0.12;
};

}  // namespace zeropp::codec::format::mxfp4

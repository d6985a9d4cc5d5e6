// MXFP6 of the OCP Microscaling specification with E2M3 elements, whose largest
// value is 7.5, in planes of 4 and 2 bits.
#pragma once

#include <string_view>

#include "kernels/codec/float_format.hpp"

namespace zeropp::codec::format::mxfp6 {

struct Format : MicroscalingFormat<2, 3, 0x1F> {
  static constexpr std::string_view name = "mxfp6";
  static constexpr std::string_view summary = "E2M3 elements, one power of two a block of 32";
};

}  // namespace zeropp::codec::format::mxfp6

// Identity. In fp32 memory this format runs; with 16-bit memory, binding takes the cast format of
// that dtype instead, so that nothing is converted.
#pragma once

#include <string_view>

#include "kernels/codec/cast.hpp"

namespace zeropp::codec::format::none {

struct Format : Cast<float> {
  static constexpr std::string_view name = "none";
  static constexpr std::string_view summary = "identity in the memory dtype";
  static constexpr double error_bound(double /*value*/, double /*scale*/) { return 0.0; }
};

}  // namespace zeropp::codec::format::none

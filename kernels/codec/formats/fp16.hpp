// IEEE half precision on the wire.
#pragma once

#include <string_view>

#include "kernels/codec/cast.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec::format::fp16 {

struct Format : Cast<Fp16> {
  static constexpr std::string_view name = "fp16";
  static constexpr std::string_view summary = "half precision, rounded to nearest, saturating";
  static constexpr double error_bound(double value, double /*scale*/) {
    return rounding_bound(value, 0x1p-11, 0x1p-25, 65504.0);
  }
};

}  // namespace zeropp::codec::format::fp16

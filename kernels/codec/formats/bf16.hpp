// bfloat16 on the wire.
#pragma once

#include <string_view>

#include "kernels/codec/cast.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec::format::bf16 {

struct Format : Cast<Bf16> {
  static constexpr std::string_view name = "bf16";
  static constexpr std::string_view summary = "bfloat16, rounded to nearest";
  static constexpr double error_bound(double value, double /*scale*/) {
    return rounding_bound(value, 0x1p-8, 0x1p-134, 0x1.FEp127);
  }
};

}  // namespace zeropp::codec::format::bf16

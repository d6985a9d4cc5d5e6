// Symmetric 3-bit integers with one bf16 scale per block, in planes of 2 and 1 bits.
#pragma once

#include <string_view>

#include "kernels/codec/integer_format.hpp"

namespace zeropp::codec::format::int3 {

struct Format : IntegerFormat<3> {
  static constexpr std::string_view name = "int3";
  static constexpr std::string_view summary = "symmetric 3-bit integers, one bf16 scale a block";
  /// Seven codes: a sum of few decoded values lies on a grid that the next hop rounds unevenly.
  static constexpr double slope_tolerance = 0.04;
};

}  // namespace zeropp::codec::format::int3

// Symmetric 2-bit integers with one bf16 scale per block.
#pragma once

#include <string_view>

#include "kernels/codec/integer_format.hpp"

namespace zeropp::codec::format::int2 {

struct Format : IntegerFormat<2> {
  static constexpr std::string_view name = "int2";
  static constexpr std::string_view summary = "symmetric 2-bit integers, one bf16 scale a block";
  /// Three codes: what is under half the largest value is lost, at every hop; of blocks beyond the
  /// default, more.
  static constexpr double slope_tolerance = 0.5;
};

}  // namespace zeropp::codec::format::int2

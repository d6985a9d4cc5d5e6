// Symmetric 5-bit integers with one bf16 scale per block, in planes of 4 and 1 bits.
#pragma once

#include <string_view>

#include "kernels/codec/integer_format.hpp"

namespace zeropp::codec::format::int5 {

struct Format : IntegerFormat<5> {
  static constexpr std::string_view name = "int5";
  static constexpr std::string_view summary = "symmetric 5-bit integers, one bf16 scale a block";
};

}  // namespace zeropp::codec::format::int5

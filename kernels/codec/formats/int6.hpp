// Symmetric 6-bit integers with one bf16 scale per block, in planes of 4 and 2 bits.
#pragma once

#include <string_view>

#include "kernels/codec/integer_format.hpp"

namespace zeropp::codec::format::int6 {

struct Format : IntegerFormat<6> {
  static constexpr std::string_view name = "int6";
  static constexpr std::string_view summary = "symmetric 6-bit integers, one bf16 scale a block";
};

}  // namespace zeropp::codec::format::int6

// Symmetric 7-bit integers with one bf16 scale per block, in planes of 4, 2 and 1 bits.
#pragma once

#include <string_view>

#include "kernels/codec/integer_format.hpp"

namespace zeropp::codec::format::int7 {

struct Format : IntegerFormat<7> {
  static constexpr std::string_view name = "int7";
  static constexpr std::string_view summary = "symmetric 7-bit integers, one bf16 scale a block";
};

}  // namespace zeropp::codec::format::int7

// Symmetric 8-bit integers with one bf16 scale per block: the default for weights (qwZ, paper
// section 3.1).
#pragma once

#include <cstddef>
#include <string_view>

#include "kernels/codec/integer_format.hpp"
#include "kernels/codec/symmetric_int.hpp"

namespace zeropp::codec::format::int8 {

struct Format : SymmetricInt<8>, IntegerOptions<8> {
  static constexpr std::string_view name = "int8";
  static constexpr std::string_view summary = "symmetric 8-bit integers, one bf16 scale a block";
  static constexpr std::size_t default_block = 256;
};

}  // namespace zeropp::codec::format::int8

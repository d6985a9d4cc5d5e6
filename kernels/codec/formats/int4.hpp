// Symmetric 4-bit integers with one bf16 scale per block: the default for gradients (qgZ, paper
// section 3.3).
#pragma once

#include <cstddef>
#include <string_view>

#include "kernels/codec/integer_format.hpp"
#include "kernels/codec/symmetric_int.hpp"

namespace zeropp::codec::format::int4 {

struct Format : SymmetricInt<4>, IntegerOptions<4> {
  static constexpr std::string_view name = "int4";
  static constexpr std::string_view summary = "symmetric 4-bit integers, one bf16 scale a block";
  static constexpr std::size_t default_block = 128;
};

}  // namespace zeropp::codec::format::int4

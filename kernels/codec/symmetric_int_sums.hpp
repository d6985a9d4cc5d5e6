// When sums of code * scale over the images of SymmetricInt<4> can be made in integers, bit for bit
// what fp32 gives in image order. Scales are bf16, so that a product is an integer of few bits
// times a power of two. Where the scales that a block has in the images differ by few powers of
// two, every partial sum is a multiple of one power and has at most 24 bits: no addition rounds in
// fp32, and any exact arithmetic gives the same. tests/unit/codec_integer_sums.cpp goes to the
// limits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// The scales that sums of a number of images take.
struct IntegerRange {
  unsigned spread = 0;    ///< powers of two between the largest scale and the smallest but zeros
  std::uint32_t top = 0;  ///< bits, in fp32, of the largest scale

  static constexpr int kBits = 4;  ///< of a code

  /// Significands of scales have 8 bits, so that a partial sum has
  /// kBits - 1 + 8 + spread + log2(images); integers that stand for scales have at most 15.
  static IntegerRange of(std::size_t images) {
    const int log2_images = images < 2 ? 0 : static_cast<int>(std::bit_width(images - 1));
    const int spare = 24 - (kBits - 1 + 8) - log2_images;
    if (spare < 0) return {};  // zeros only
    const auto exponent = static_cast<std::uint32_t>(254 - kBits - log2_images);
    return {static_cast<unsigned>(std::min(spare, 7)), (exponent << 23U) | 0x7FFFFFU};
  }
};

/// The scales, in fp32, that one block has in the images.
class BlockScales {
 public:
  ZEROPP_HD void see(float scale) {
    const std::uint32_t bits = bits_of(scale);
    const std::uint32_t less = bits - 1U;  // of zero the largest integer
    largest_ = bits > largest_ ? bits : largest_;
    smallest_ = less < smallest_ ? less : smallest_;
  }

  /// All that were seen are in the range: zero, or positive, finite, normal and near each other.
  [[nodiscard]] ZEROPP_HD bool in(const IntegerRange& range) const {
    const std::uint32_t least = ((exponent() - range.spread) << 23U) - 1U;
    return static_cast<int>(largest_ <= range.top) & static_cast<int>(smallest_ >= least);
  }
  /// The power of two of which every scale in the range is a multiple under 2^15.
  [[nodiscard]] ZEROPP_HD float unit(const IntegerRange& range) const {
    return float_of((exponent() - 7U - range.spread) << 23U);
  }
  [[nodiscard]] ZEROPP_HD float reciprocal_unit(const IntegerRange& range) const {
    return float_of((261U + range.spread - exponent()) << 23U);
  }

 private:
  /// Exponent of the largest scale, biased; so large that units and fractions of them are normal
  /// numbers.
  [[nodiscard]] ZEROPP_HD unsigned exponent() const {
    const unsigned exponent = largest_ >> 23U;
    return exponent > 20U ? exponent : 20U;
  }
  std::uint32_t largest_ = 0;
  std::uint32_t smallest_ = ~0U;  ///< less one
};

/// The integer of a scale in the range, in the low 16 bits.
ZEROPP_HD std::uint32_t integer_of_scale(float scale, float reciprocal_unit) {
  constexpr float ones = 8388608.0F;  // 2^23: the last place of the sum counts ones
  return bits_of(fused_multiply_add(scale, reciprocal_unit, ones));
}

}  // namespace zeropp::codec

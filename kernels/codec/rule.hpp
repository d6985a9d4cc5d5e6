// A rule: how blocks of a format are quantized, as an object whose numbers are known at run time,
// so that one kernel serves every width and block of it (formats with kernels of their own are in
// format.hpp). Formats with options choose their rule's type by them: each option is a type that
// the rule is put together from.
//
// A rule, made from RuleNumbers, has
//   Range                    of block_range.hpp: what of a block's values decides on its scale
//   Stored                   what an image has for each block
//   Factors                  what encode() or decode() needs of a stored block
//   Transform                of transforms.hpp
//   scales_images            whether an image has a scale of its own: then the rule is made for an
//                            image, with its image_scale; image_scale_of(range) is what a group
//                            asks for, and the largest of all groups is the image's
//   stored(range)            -> Stored; of a range that is not finite, or overflows, the NaN one
//   encoding(stored)         -> Factors of encode; .at(place) is the one of a value in its group;
//                            where `zeros`, the payload is zero
//   Rounding                 of rounding.hpp: whether encode() takes a random word
//   Reader                   the rule that reads its images: itself, or one that shares kernels
//   encode(x, factor[, word])  -> code, of which the low numbers.bits bits are kept
//   decoding(stored)         -> Factors of decode
//   decode(code, factor)     -> fp32, finite where the block is
//   accumulate(code, factor, sum)  -> sum plus the decoded value
// All are translated for host and device alike; Range, Stored and Factors are plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"
#include "kernels/core/macros.hpp"

namespace zeropp::codec {

/// Numbers by which formats of one rule differ.
struct RuleNumbers {
  unsigned bits = 0;  ///< payload bits per value
  // Integers: codes from `lowest` to `highest`, the largest value being `steps` scales.
  float lowest = 0;
  float highest = 0;
  float steps = 0;
  // Floating-point elements.
  unsigned mantissa_bits = 0;
  unsigned bias = 0;
  std::uint32_t largest_code = 0;
};

/// The rule for the image at `image`, which has its own scale already where there is one.
template <class Rule>
ZEROPP_HD Rule rule_of_image(const RuleNumbers& numbers, const WireShape& shape,
                             const std::byte* image) {
  if constexpr (Rule::scales_images) {
    return {numbers, *reinterpret_cast<const float*>(image + shape.image_offset)};
  } else {
    return {numbers};
  }
}

/// One step down from an infinity, in the bits: where rounding up of a scale made the decoded value
/// of a finite block infinite.
ZEROPP_HD float saturated(float value) {
  const std::uint32_t bits = bits_of(value);
  return float_of((bits & 0x7FFFFFFFU) == 0x7F800000U ? bits - 1U : bits);
}

}  // namespace zeropp::codec

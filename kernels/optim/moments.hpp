// How an optimizer keeps its moments from step to step. A step widens them to fp32, computes as
// ever, and stores the new ones:
//
//   fp32  as they are
//   bf16  rounded stochastically, up with the probability that makes the expectation the value. The
//         draws count on the step's key, the moment and UpdatePiece::number: the same bits at any
//         number of ranks and in any pieces. A finite value stays finite: it saturates. A moment
//         that is not negative stays so; NaN stays NaN
//   int8  codes of a dynamic map (dynamic_map.hpp), to nearest, in units of the largest magnitude
//         in a block of kMomentBlock elements: Dettmers et al., arXiv 2110.02861. A positive second
//         moment stays positive: its smallest code is not zero, or m / sqrt(v) could become
//         anything. A block in which something is not finite becomes NaN as a whole; one of which
//         all magnitudes are below the smallest normal number becomes zero
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/half.hpp"
#include "kernels/core/macros.hpp"
#include "kernels/optim/dynamic_map.hpp"
#include "kernels/optim/options.hpp"

namespace zeropp::optim {

/// Bytes of one moment, without what a block of them has beside.
constexpr std::size_t moment_element_bytes(Moments moments) {
  return moments == Moments::fp32 ? 4 : moments == Moments::bf16 ? 2 : 1;
}

/// Scales of `count` elements that begin a block.
constexpr std::size_t moment_scales(Moments moments, std::size_t count) {
  return moments == Moments::int8 ? (count + kMomentBlock - 1) / kMomentBlock : 0;
}

/// State that an optimizer keeps for a parameter beside the weight.
struct Kept {
  Kept(std::size_t of, Moments as = Moments::fp32) : states(of), moments(as) {}  // NOLINT: of fp32
  std::size_t states;
  Moments moments;

  /// Bytes of one moment of `count` elements.
  [[nodiscard]] std::size_t bytes_of_one(std::size_t count) const {
    return count * moment_element_bytes(moments) + moment_scales(moments, count) * sizeof(float);
  }
  [[nodiscard]] std::size_t bytes(std::size_t count) const { return states * bytes_of_one(count); }
};

/// Four elements share a call of the generator; of an element's word moment i has 16 bits.
ZEROPP_HD Random4 draws_of_four(std::uint64_t key, std::uint64_t number) {
  return philox4x32(key, number / 4, 0);
}

/// Down or up by the 16 bits of a draw: unbiased, as what bf16 drops is 16 bits.
ZEROPP_HD Bf16 stochastic_bf16(float value, std::uint32_t draw) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + (draw & 0xFFFFU)) >> 16U;
  const bool overflowed = (rounded & 0x7FFFU) == 0x7F80U;
  const std::uint32_t finite = overflowed ? rounded - 1U : rounded;
  const std::uint32_t others = is_nan_bits(bits) ? kCanonicalNanBf16 : bits >> 16U;
  return {static_cast<std::uint16_t>(is_finite_bits(bits) ? finite : others)};
}

/// A block's scale, what its values are multiplied by, and the value up to which a positive one may
/// have the code 0: infinity where all codes of the block are 0.
struct BlockScale {
  float scale;
  float inverse;
  float zero = 0.0F;
};

/// Scale of a block whose largest bits of a magnitude are these: those of NaN are above
/// infinity's.
ZEROPP_HD BlockScale block_scale(std::uint32_t largest) {
  constexpr float kAll = std::numeric_limits<float>::infinity();
  if (!is_finite_bits(largest)) return {float_of(kCanonicalNan32), 0.0F, kAll};
  constexpr std::uint32_t kSmallestNormal = 0x00800000U;
  if (largest < kSmallestNormal) return {0.0F, 0.0F, kAll};
  return {float_of(largest), 1.0F / float_of(largest)};
}

ZEROPP_HD std::uint32_t magnitude_bits(float value) { return bits_of(value) & 0x7FFFFFFFU; }

/// The code of a value of a block with this scale, and the value that a code stands for. `map` is
/// the one for moments of that kind.
template <bool Signed, class Map>
ZEROPP_HD std::uint32_t moment_code(const Map& map, const BlockScale& of, float value) {
  std::uint32_t code = nearest(map, fabsf(value) * of.inverse);
  if constexpr (Signed) {
    const std::uint32_t negative = 256U - (code < 127U ? code : 127U);
    return value < 0.0F ? negative & 0xFFU : code;
  }
  return code == 0 && value > of.zero ? 1U : code;
}

template <class Map>
ZEROPP_HD float moment_value(const Map& map, float scale, std::uint32_t code) {
  return map.value[code] * scale;
}

/// The codes of up to kMomentBlock values of the host, which are a block; its scale is returned.
template <bool Signed>
float encode_block(const float* values, std::size_t count, std::uint8_t* codes) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    largest = bits > largest ? bits : largest;
  }
  const BlockScale of = block_scale(largest);
  std::uint32_t words[kMomentBlock];  // a loop of gathers, and one that narrows
  for (std::size_t i = 0; i < count; ++i) {
    words[i] = moment_code<Signed>(kDynamicMap<Signed>, of, values[i]);
  }
  for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(words[i]);
  return of.scale;
}

/// The values of such codes.
template <bool Signed>
void decode_block(const std::uint8_t* codes, float scale, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = moment_value(kDynamicMap<Signed>, scale, codes[i]);
  }
}

/// Calls body(kind) with a std::integral_constant<Moments, ...>: where a run-time kind becomes one
/// of compile time. An optimizer without states has one kind.
template <std::size_t States, class Body>
void with_moments(Moments moments, const Body& body) {
  if constexpr (States > 0) {
    if (moments == Moments::bf16) return body(std::integral_constant<Moments, Moments::bf16>());
    if (moments == Moments::int8) return body(std::integral_constant<Moments, Moments::int8>());
  }
  body(std::integral_constant<Moments, Moments::fp32>());
}

/// Arrays of moments of the host, as they are kept, to fp32 and back: to the nearest here, for what
/// was kept in another way before. `scales` has moment_scales() of them.
void widen_moments(Moments moments, bool is_signed, std::size_t count, const std::byte* values,
                   const float* scales, float* wide);
void keep_moments(Moments moments, bool is_signed, std::size_t count, const float* wide,
                  std::byte* values, float* scales);

}  // namespace zeropp::optim

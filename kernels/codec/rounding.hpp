// How a rule makes an integer code of a scaled value.
#pragma once

#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/draw.hpp"
#include "kernels/codec/planes.hpp"
#include "kernels/codec/unroll.hpp"
#include "kernels/core/counter_rng.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// 1.5 * 2^23: the last place of a sum with it is 1, so that the adder rounds to nearest even and
/// the low bits of the sum are the integer in two's complement. For magnitudes under 2^22.
inline constexpr float kIntegerMagic = 12582912.0F;

/// To nearest even, clamped.
struct Nearest {
  static constexpr bool draws = false;
  ZEROPP_HD static std::uint32_t code(float value, float lowest, float highest,
                                      std::uint32_t /*word*/ = 0) {
    const float above = value < lowest ? lowest : value;
    return bits_of(add(above > highest ? highest : above, kIntegerMagic));
  }
};

/// Down or up by chance (+sr), so that the expectation of the code is the value: f = floor(value),
/// f + (u < value - f) with u uniform in [0, 1), clamped.
struct Stochastic {
  static constexpr bool draws = true;
  ZEROPP_HD static std::uint32_t code(float value, float lowest, float highest,
                                      std::uint32_t word) {
    const float nearest = add(add(value, kIntegerMagic), -kIntegerMagic);
    const float below = nearest > value ? add(nearest, -1.0F) : nearest;
    const bool up = uniform01(word) < add(value, -below);
    return Nearest::code(up ? add(below, 1.0F) : below, lowest, highest);
  }
};

/// The codes of a group of which `number` is the first value's (draw.hpp), a word of the generator
/// each where the rule draws.
template <class Rule>
ZEROPP_HD void encode_group(const Rule& rule, const float (&values)[kGroup],
                            const typename Rule::Factors& factors, std::uint64_t key,
                            std::uint64_t number, std::uint32_t (&codes)[kGroup]) {
  if constexpr (Rule::Rounding::draws) {
    ZEROPP_UNROLL for (int i = 0; i < kGroup; i += 4) {
      const Random4 random = philox4x32(key, number / 4 + static_cast<unsigned>(i) / 4, 0);
      ZEROPP_UNROLL for (int k = 0; k < 4; ++k) {
        const auto factor = factors.at(i + k);
        codes[i + k] = factor.zeros ? 0U : rule.encode(values[i + k], factor, random.word[k]);
      }
    }
  } else {
    ZEROPP_UNROLL for (int i = 0; i < kGroup; ++i) {
      const auto factor = factors.at(i);
      codes[i] = factor.zeros ? 0U : rule.encode(values[i], factor);
    }
  }
}

}  // namespace zeropp::codec

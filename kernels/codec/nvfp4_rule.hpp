// NVFP4: E2M1 elements in blocks of 16, an E4M3 scale per block, and an fp32 scale per image that
// makes the largest magnitude of the image the largest element times the largest block scale:
//   image scale  g = max|x| / (6 * 448) over the blocks that are finite; 0 where it would be
//   subnormal block scale  s = E4M3(max|x| / (6 g)), nearest even; 0 where s * g would be subnormal
//   element      E2M1(x * (1 / (s * g))), nearest even, saturating; decoded as element * (s * g)
// A block that is not finite has the scale NaN and zeros. Kernels work in groups of two blocks.
// Source: NVIDIA, "Pretraining Large Language Models with NVFP4" (arXiv 2509.25149), section 2.
#pragma once

#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/block_range.hpp"
#include "kernels/codec/float_rule.hpp"
#include "kernels/codec/rounding.hpp"
#include "kernels/codec/rule.hpp"
#include "kernels/codec/scale_types.hpp"
#include "kernels/codec/transforms.hpp"

namespace zeropp::codec {

/// The largest magnitude of each half of a group.
struct HalfMagnitudes {
  static constexpr int kWords = 2;
  std::uint32_t words[kWords] = {};

  ZEROPP_HD void see(float value, int place) {
    take(place / (kGroup / 2), bits_of(value) & 0x7FFFFFFFU);
  }
  ZEROPP_HD void take(int word, std::uint32_t other) {
    words[word] = other > words[word] ? other : words[word];
  }
};

struct Nvfp4Rule {
  using Reader = Nvfp4Rule;
  using Rounding = Nearest;
  using Range = HalfMagnitudes;
  using Transform = Identity;
  static constexpr bool scales_images = true;
  static constexpr std::uint8_t kNan = 0x7F;  ///< of E4M3

  /// E4M3, by block of the group.
  struct Stored {
    std::uint8_t scale[2];
  };
  struct Factor {
    float scale;
    bool zeros;
  };
  struct Factors {
    Factor half[2];
    [[nodiscard]] ZEROPP_HD Factor at(int place) const { return half[place / (kGroup / 2)]; }
  };
  RuleNumbers numbers;  ///< of the elements
  float image_scale = 0;

  /// The image scale that this group asks for: the largest of all groups is the image's.
  [[nodiscard]] ZEROPP_HD static float image_scale_of(const Range& range) {
    std::uint32_t largest = 0;
    ZEROPP_UNROLL for (const std::uint32_t word : range.words) {
      if (is_finite_bits(word) && word > largest) largest = word;
    }
    return Fp32Scale::store(divide(float_of(largest), kLargestElement * kLargestScale));
  }
  [[nodiscard]] ZEROPP_HD Stored stored(const Range& range) const {
    return {{scale_code(range.words[0]), scale_code(range.words[1])}};
  }
  [[nodiscard]] ZEROPP_HD Factors encoding(const Stored& stored) const {
    return {{encoding(stored.scale[0]), encoding(stored.scale[1])}};
  }
  [[nodiscard]] ZEROPP_HD std::uint32_t encode(float x, const Factor& factor) const {
    return SmallFloat(numbers).encode(multiply(x, factor.scale), numbers.bits);
  }
  [[nodiscard]] ZEROPP_HD Factors decoding(const Stored& stored) const {
    return {{{scale_value(stored.scale[0]), false}, {scale_value(stored.scale[1]), false}}};
  }
  [[nodiscard]] ZEROPP_HD float decode(std::uint32_t code, const Factor& factor) const {
    return saturated(multiply(SmallFloat(numbers).decode(code, numbers.bits), factor.scale));
  }
  /// A product has more bits than fp32: it is rounded before it is added.
  [[nodiscard]] ZEROPP_HD float accumulate(std::uint32_t code, const Factor& factor,
                                           float sum) const {
    return add(sum, decode(code, factor));
  }

 private:
  static constexpr float kLargestElement = 6.0F;
  static constexpr float kLargestScale = 448.0F;

  ZEROPP_HD static SmallFloat e4m3() { return {3, 7, 0x7E}; }

  [[nodiscard]] ZEROPP_HD std::uint8_t scale_code(std::uint32_t largest) const {
    if (!is_finite_bits(largest)) return kNan;
    if (image_scale == 0) return 0;
    const float scale = divide(float_of(largest), multiply(kLargestElement, image_scale));
    const auto code = static_cast<std::uint8_t>(e4m3().round(scale));
    return bits_of(scale_value(code)) < 0x00800000U ? std::uint8_t{0} : code;
  }
  [[nodiscard]] ZEROPP_HD float scale_value(std::uint8_t code) const {
    if ((code & 0x7FU) == kNan) return float_of(kCanonicalNan32);
    return multiply(e4m3().decode(code, 8), image_scale);
  }
  [[nodiscard]] ZEROPP_HD Factor encoding(std::uint8_t code) const {
    const float scale = scale_value(code);
    if (!(scale > 0)) return {0.0F, true};
    return {invert(scale), false};
  }
};

}  // namespace zeropp::codec

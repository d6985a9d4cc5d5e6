// Range of the values of a block, which a rule needs before it can encode one of them: words whose
// bitwise order is the order of the values, so that ranges are joined by the larger word, in any
// order. Values that are not finite have the largest words: none is lost.
#pragma once

#include <cstdint>

#include "kernels/codec/planes.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// The largest magnitude.
struct Magnitude {
  static constexpr int kWords = 1;
  std::uint32_t words[kWords] = {};

  ZEROPP_HD void see(float value, int /*place*/ = 0) { take(0, bits_of(value) & 0x7FFFFFFFU); }
  ZEROPP_HD void take(int word, std::uint32_t other) {
    words[word] = other > words[word] ? other : words[word];
  }
  [[nodiscard]] ZEROPP_HD float largest() const { return float_of(words[0]); }
  [[nodiscard]] ZEROPP_HD bool finite() const { return is_finite_bits(words[0]); }
};

/// The largest and the smallest value.
struct Extremes {
  static constexpr int kWords = 2;
  std::uint32_t words[kWords] = {};

  ZEROPP_HD void see(float value, int /*place*/ = 0) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t key = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    take(0, key);
    take(1, ~key);
  }
  ZEROPP_HD void take(int word, std::uint32_t other) {
    words[word] = other > words[word] ? other : words[word];
  }
  [[nodiscard]] ZEROPP_HD float largest() const { return value_of(words[0]); }
  [[nodiscard]] ZEROPP_HD float smallest() const { return value_of(~words[1]); }
  [[nodiscard]] ZEROPP_HD bool finite() const {
    return is_finite_bits(bits_of(largest())) && is_finite_bits(bits_of(smallest()));
  }

 private:
  ZEROPP_HD static float value_of(std::uint32_t key) {
    return float_of((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
  }
};

}  // namespace zeropp::codec

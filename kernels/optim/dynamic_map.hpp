// The 256 values of Dettmers' dynamic data type (arXiv 2110.02861, section 2.2), in [-1, 1] and in
// [0, 1]: seven decades, of which each has twice the values of the one below, so that small values
// keep their relative error and large ones have more values. Made from that definition. Decade i,
// from 10^(i - 7) to 10^(i - 6), is cut into n equal parts, whose middles are its values: n = 2^i
// of either sign, or 2^(i + 1) where there is none. 0 and 1 are values too, and -1 is none.
//
// A code is a byte. It counts the values from 0 up; of negative values, in two's complement, from 0
// down: the code 0 is the value 0, so that cleared memory is zero.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/core/half.hpp"
#include "kernels/core/macros.hpp"

namespace zeropp::optim {

/// `Cell`: what a number of bounds is kept in. Bytes on a GPU, whose thread blocks copy the map;
/// words on the host, which gathers them.
template <class Cell>
struct alignas(16) BasicDynamicMap {
  /// Magnitudes in [2^-23, 1] as fp32 bits without the last 16: in one of those cells lies at most
  /// one bound.
  static constexpr std::uint32_t kFirstCell = 0x3400;
  static constexpr std::uint32_t kLastCell = 0x3F80;
  static constexpr std::uint32_t kCells = kLastCell - kFirstCell + 1;

  float value[256];  ///< by code
  /// Magnitude from which on value i + 1 is nearest, or as near, and not value i; beyond the last:
  /// none.
  float bound[256];
  Cell below[(kCells + 15) / 16 * 16];  ///< by cell: bounds that are not above its begin
};

using DynamicMap = BasicDynamicMap<std::uint8_t>;
using HostDynamicMap = BasicDynamicMap<std::uint32_t>;

/// The value that is nearest to a magnitude of at most 1: its number, from 0 up. NaN counts as 0.
template <class Map>
ZEROPP_HD std::uint32_t nearest(const Map& map, float magnitude) {
  constexpr float kSmallest = 0x1p-23F;  // the begin of the first cell, which has no bound
  const float x = magnitude > kSmallest ? magnitude : kSmallest;
  const std::uint32_t found = map.below[(bits_of(x) >> 16U) - Map::kFirstCell];
  return found + (x >= map.bound[found] ? 1U : 0U);
}

/// Made by the compiler. `is_signed`: half of the values are negative.
template <class Cell>
constexpr BasicDynamicMap<Cell> make_dynamic_map(bool is_signed) {
  using Map = BasicDynamicMap<Cell>;
  constexpr int kDecades = 7;
  Map map{};
  std::uint32_t count = 1;  // the value 0
  double inverse = 1e6;     // of the decade's end
  for (int decade = 0; decade < kDecades; ++decade, inverse /= 10) {
    const int parts = 1 << (is_signed ? decade : decade + 1);
    for (int i = 0; i < parts; ++i) {
      map.value[count++] = static_cast<float>((0.1 + 0.9 * (i + 0.5) / parts) / inverse);
    }
  }
  map.value[count++] = 1.0F;
  for (std::uint32_t i = 0; i < 256; ++i) {
    constexpr float kNone = 2.0F;
    const double sum = i + 1 < count ? static_cast<double>(map.value[i]) + map.value[i + 1] : 0;
    map.bound[i] = i + 1 < count ? static_cast<float>(sum / 2) : kNone;
  }
  if (is_signed) {
    for (std::uint32_t i = 1; i < 128; ++i) map.value[256 - i] = -map.value[i];
  }
  std::uint32_t below = 0;
  for (std::uint32_t cell = 0; cell < Map::kCells; ++cell) {
    const std::uint32_t begin = (Map::kFirstCell + cell) << 16U;
    while (std::bit_cast<float>(begin) >= map.bound[below]) ++below;
    // The first cell stands for all that is smaller, too: no bound is there.
    map.below[cell] = static_cast<Cell>(below);
  }
  return map;
}

/// The host's, for moments that can be negative or cannot.
template <bool Signed>
inline constexpr HostDynamicMap kDynamicMap = make_dynamic_map<std::uint32_t>(Signed);

}  // namespace zeropp::optim

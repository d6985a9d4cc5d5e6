// Codes <-> payload bytes: dense, element 0 in the low bits. Works on `Count` codes at a time, at a
// place in the payload that begins on a byte.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/core/macros.hpp"

namespace zeropp::codec {

static_assert(std::endian::native == std::endian::little, "wire images are little-endian");

template <int Bits, int Count, class Code>
ZEROPP_HD void pack(const Code* codes, std::uint8_t* payload) {
  static_assert(Bits == 8 || (Bits == 4 && Count % 8 == 0), "a payload of 4 or 8 bits per value");
  static_assert(sizeof(Code) == 1);
  if constexpr (Bits == 8) {
    for (int i = 0; i < Count; ++i) payload[i] = static_cast<std::uint8_t>(codes[i]);
  } else {
    // Eight codes at a time: neighbours are merged into bytes, bytes into halves, halves into a
    // word.
    for (int i = 0; i < Count; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, codes + i, 8);
      word &= 0x0F0F0F0F0F0F0F0FU;
      word = (word | (word >> 4U)) & 0x00FF00FF00FF00FFU;
      word = (word | (word >> 8U)) & 0x0000FFFF0000FFFFU;
      const auto packed = static_cast<std::uint32_t>(word | (word >> 16U));
      std::memcpy(payload + i / 2, &packed, 4);
    }
  }
}

/// Signed codes are sign-extended.
template <int Bits, int Count, class Code>
ZEROPP_HD void unpack(const std::uint8_t* payload, Code* codes) {
  static_assert(Bits == 8 || (Bits == 4 && Count % 8 == 0), "a payload of 4 or 8 bits per value");
  static_assert(sizeof(Code) == 1);
  if constexpr (Bits == 8) {
    for (int i = 0; i < Count; ++i) codes[i] = static_cast<Code>(payload[i]);
  } else {
    // Pairs of codes as one word each: loops without strides become vector code.
    std::uint16_t pairs[Count / 2];
    for (int i = 0; i < Count / 2; ++i) {
      pairs[i] = static_cast<std::uint16_t>((payload[i] & 0x0FU) | ((payload[i] & 0xF0U) << 4U));
    }
    std::memcpy(codes, pairs, Count);
    if constexpr (std::is_signed_v<Code>) {
      for (int i = 0; i < Count; ++i) codes[i] = static_cast<Code>((codes[i] ^ 8) - 8);
    }
  }
}

}  // namespace zeropp::codec

// Codes <-> payload bytes: dense, element 0 in the low bits. Works on `Count` codes at a time, at a
// place in the payload that begins on a byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/macros.hpp"

namespace zeropp::codec {

template <int Bits, int Count, class Code>
ZEROPP_HD void pack(const Code* codes, std::uint8_t* payload) {
  static_assert(Bits == 8 || (Bits == 4 && Count % 2 == 0), "a payload of 4 or 8 bits a value");
  if constexpr (Bits == 8) {
    for (int i = 0; i < Count; ++i) payload[i] = static_cast<std::uint8_t>(codes[i]);
  } else {
    for (int i = 0; i < Count / 2; ++i) {
      const auto low = static_cast<std::uint8_t>(codes[2 * i]);
      const auto high = static_cast<std::uint8_t>(codes[2 * i + 1]);
      payload[i] = static_cast<std::uint8_t>((low & 0x0FU) | (high << 4U));
    }
  }
}

/// Signed codes are sign-extended.
template <int Bits, int Count, class Code>
ZEROPP_HD void unpack(const std::uint8_t* payload, Code* codes) {
  static_assert(Bits == 8 || (Bits == 4 && Count % 2 == 0), "a payload of 4 or 8 bits a value");
  if constexpr (Bits == 8) {
    for (int i = 0; i < Count; ++i) codes[i] = static_cast<Code>(payload[i]);
  } else {
    for (int i = 0; i < Count / 2; ++i) {
      // Shifting a Code that holds the nibble in its high bits extends the sign when it has one.
      codes[2 * i] = static_cast<Code>(static_cast<Code>(payload[i] << 4U) >> 4);
      codes[2 * i + 1] = static_cast<Code>(static_cast<Code>(payload[i]) >> 4);
    }
  }
}

}  // namespace zeropp::codec

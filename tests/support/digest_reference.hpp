// The digest of kernels/core/digest.hpp, written a second time: word by word from the definition of
// the finalizer of MurmurHash3, with 64-bit arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace zeropp::test {

inline std::uint64_t finalized(std::uint64_t x) {
  constexpr std::uint64_t kLow = 0xFFFFFFFF;
  x ^= x >> 16U;
  x = x * 0x85EBCA6B & kLow;
  x ^= x >> 13U;
  x = x * 0xC2B2AE35 & kLow;
  return x ^ (x >> 16U);
}

/// The digest of `bytes`, whose first word is at `place`.
inline std::uint64_t digest_of(std::span<const std::byte> bytes, std::uint64_t place = 0) {
  constexpr std::uint64_t kLow = 0xFFFFFFFF;
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 4, ++place) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(4, bytes.size() - at));
    const std::uint64_t high = finalized((place ^ 0x9E3779B9) & kLow) * 0x27D4EB2F & kLow;
    sum += word * ((high << 32U) + finalized((place + 1) & kLow));
  }
  return sum;
}

}  // namespace zeropp::test

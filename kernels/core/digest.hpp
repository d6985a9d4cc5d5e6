// The digest of bytes: the sum over their 32-bit words of word * multiplier(place), modulo 2^64.
// The order of the additions does not matter, so that any number of threads, blocks and launches
// add to one digest, and all back ends give the same. With words a != b at places i != j of one
// array of less than 16 GiB:
//   - another word at one place always changes it: the lower half of a multiplier is not 0, so that
//     (a - b) * multiplier is no multiple of 2^64;
//   - two different words that change places always change it: the lower halves of multipliers
//     differ, so that (a - b) * (multiplier(i) - multiplier(j)) is none either;
//   - other arrays agree with a probability of at most 2^-33, taken over the multipliers as random
//     numbers: 2^-64 where some word differs by an odd number.
// The last word of bytes that are no multiple of 4 is filled with zeros.
#pragma once

#include <cstdint>

#include "kernels/core/macros.hpp"

namespace zeropp {

/// A bijection of 32-bit numbers that maps 0 to 0 (the finalizer of MurmurHash3).
ZEROPP_HD std::uint32_t scattered(std::uint32_t x) {
  x = (x ^ (x >> 16U)) * 0x85EBCA6BU;
  x = (x ^ (x >> 13U)) * 0xC2B2AE35U;
  return x ^ (x >> 16U);
}

/// The multiplier of the word at `place`.
ZEROPP_HD std::uint64_t digest_multiplier(std::uint32_t place) {
  const std::uint32_t high = scattered(place ^ 0x9E3779B9U) * 0x27D4EB2FU;
  return (static_cast<std::uint64_t>(high) << 32U) | scattered(place + 1U);
}

}  // namespace zeropp

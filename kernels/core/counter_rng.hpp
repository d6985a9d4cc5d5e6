// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11). A value depends only on its
// key and counter, never on who draws it or in which order: any rank can make any element of any
// tensor.
#pragma once

#include <cstdint>

#include "kernels/core/macros.hpp"

namespace zeropp {

struct Random4 {
  std::uint32_t word[4];
};

/// Four independent 32-bit words for (key, counter_low, counter_high).
ZEROPP_HD Random4 philox4x32(std::uint64_t key, std::uint64_t counter_low,
                             std::uint64_t counter_high) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter_low >> 32U);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high);
  std::uint32_t c3 = static_cast<std::uint32_t>(counter_high >> 32U);
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32U) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32U) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// The key for (a, b) below `key`: keys of keys, for draws that depend on more than a counter
/// holds.
ZEROPP_HD std::uint64_t derived_key(std::uint64_t key, std::uint64_t a, std::uint64_t b) {
  const Random4 random = philox4x32(key, a, b);
  return (static_cast<std::uint64_t>(random.word[1]) << 32U) | random.word[0];
}

/// A draw of mean 0 and variance 1 that is close to normal: twelve 16-bit uniforms summed
/// (Irwin-Hall). Integer arithmetic and one exact multiplication: the same bits on every back end,
/// unlike log and cos.
ZEROPP_HD float standard_normal(std::uint64_t key, std::uint64_t stream, std::uint64_t element) {
  const Random4 a = philox4x32(key, 2 * element, stream);
  const Random4 b = philox4x32(key, 2 * element + 1, stream);
  std::int32_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<std::int32_t>((a.word[i] & 0xFFFFU) + (a.word[i] >> 16U));
  }
  for (int i = 0; i < 2; ++i) {
    sum += static_cast<std::int32_t>((b.word[i] & 0xFFFFU) + (b.word[i] >> 16U));
  }
  // Each uniform has mean 65535 / 2: the sum's mean is 6 * 65535; its standard deviation is 65536
  // to 1e-10.
  return static_cast<float>(sum - 6 * 65535) * (1.0F / 65536.0F);
}

/// Uniform in [0, 1), 24 bits.
ZEROPP_HD float uniform01(std::uint32_t word) {
  return static_cast<float>(word >> 8U) * (1.0F / 16777216.0F);
}

}  // namespace zeropp

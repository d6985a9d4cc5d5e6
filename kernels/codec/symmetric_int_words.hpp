// The maths of SymmetricInt on whole words of codes, for hardware on which integer conversions,
// shifts and comparisons cost more than fp32 arithmetic. Bit for bit what SymmetricInt computes
// value by value; tests/unit/codec_integer_words.cpp goes through all cases.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/symmetric_int.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

template <int Bits>
struct SymmetricIntWords {
  static_assert(16 % Bits == 0, "a code lies in one half of its word");
  static constexpr int kCodes = 32 / Bits;
  static constexpr std::uint32_t kBias = 1U << (Bits - 1);

  /// Code i of `word` in fp32: of 0, +0. The code, made unsigned by the bias, becomes low bits of
  /// the significand of a power of two so large that they count ones; the subtraction of power and
  /// bias is exact. The lower half of a word needs no shift: the power moves instead.
  ZEROPP_HD static float value(std::uint32_t word, int i) {
    const int place = i * Bits % 16;
    const std::uint32_t half = i * Bits < 16 ? word : word >> 16U;
    const std::uint32_t field = ((1U << Bits) - 1U) << place;
    const std::uint32_t zero =
        (static_cast<std::uint32_t>(127 + 23 - place) << 23U) | (kBias << place);
    return add(float_of(and_xor(half, field, zero)), -float_of(zero));
  }

  /// kCodes values of one block -> their word; `reciprocal` is that of the block's stored scale.
  /// No clamp: the scale is not under absmax / qmax but for roundings, so that no product rounds
  /// beyond qmax.
  ZEROPP_HD static std::uint32_t encode(const float* values, float reciprocal) {
    // 1.5 * 2^23, see SymmetricInt::encode; with the (even) bias no code borrows from its
    // neighbour, and Horner's rule packs.
    constexpr float magic = 12582912.0F;
    std::uint32_t word = 0;
    for (int i = kCodes - 1; i >= 0; --i) {
      const float sum = add(multiply(values[i], reciprocal), magic + static_cast<float>(kBias));
      word = (word << static_cast<unsigned>(Bits)) + bits_of(sum);
    }
    constexpr std::uint32_t surplus = every(std::bit_cast<std::uint32_t>(magic));
    constexpr std::uint32_t signs = every(kBias);
    return (word - surplus) ^ signs;
  }

  /// No q * scale is beyond 2^top: such products need no saturation in a type that holds 2^top.
  ZEROPP_HD static bool products_reach_at_most(int top, float scale) {
    const auto limit = static_cast<std::uint32_t>(127 + top - (Bits - 1)) << 23U;
    return (bits_of(scale) & 0x7FFFFFFFU) <= limit;
  }

  /// The sum, modulo 2^32, of `bits` at the place of every code.
  static constexpr std::uint32_t every(std::uint32_t bits) {
    std::uint32_t sum = 0;
    for (int i = 0; i < kCodes; ++i) sum += bits << static_cast<unsigned>(i * Bits);
    return sum;
  }

 private:
  /// (a & b) ^ c in one instruction: of two immediate operands the compiler makes two.
  ZEROPP_HD static std::uint32_t and_xor(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#ifdef __CUDA_ARCH__
    std::uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
#else
    return (a & b) ^ c;
#endif
  }
};

/// Format computes by SymmetricInt and hides none of its functions: SymmetricIntWords may stand in.
template <class Format>
concept InSymmetricIntWords =
    Format::bits <= 8 && 16 % Format::bits == 0 &&
    std::derived_from<Format, SymmetricInt<static_cast<int>(Format::bits)>>&&& Format::scale_of ==
        &SymmetricInt<static_cast<int>(Format::bits)>::scale_of&&& Format::reciprocal ==
        &SymmetricInt<static_cast<int>(Format::bits)>::reciprocal&&& Format::encode ==
        &SymmetricInt<static_cast<int>(Format::bits)>::encode&&& Format::decode ==
        &SymmetricInt<static_cast<int>(Format::bits)>::decode&&& Format::accumulate ==
        &SymmetricInt<static_cast<int>(Format::bits)>::accumulate;

}  // namespace zeropp::codec

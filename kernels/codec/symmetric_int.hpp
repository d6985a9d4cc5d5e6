// The symmetric integer rule, b bits: q = clamp(rne(x / s), -qmax, qmax), qmax = 2^(b-1) - 1, with
// s = max|x| / qmax stored as bf16, rounded up. Block-based quantization of ZeRO++ (paper section
// 3.1), symmetric form. SymmetricInt computes it value by value, SymmetricIntWords with the same
// bits on whole words of codes.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

template <int Bits>
struct SymmetricInt {
  static_assert(Bits >= 2 && Bits <= 8);
  using Scale = Bf16;
  using Code = std::int8_t;

  static constexpr std::size_t bits = Bits;
  static constexpr std::size_t minimum_block = 32;
  static constexpr std::size_t maximum_block = kLargestBlock;
  static constexpr float qmax = static_cast<float>((1 << (Bits - 1)) - 1);

  /// Never under absmax / qmax, but at most the largest finite bf16. A scale that would be
  /// subnormal is zero, and so is its block: reciprocals stay finite.
  ZEROPP_HD static Bf16 scale_of(float absmax) {
    const Bf16 scale = round_up_to_bf16(divide_by<static_cast<int>(qmax)>(absmax));
    return scale.bits < 0x0080U ? Bf16{0} : scale;
  }
  ZEROPP_HD static Bf16 non_finite_scale() { return {kCanonicalNanBf16}; }
  ZEROPP_HD static float scale_value(Bf16 stored) { return to_float(stored); }
  ZEROPP_HD static float reciprocal(Bf16 stored) {
    return stored.bits == 0 ? 0.0F : invert(to_float(stored));
  }

  ZEROPP_HD static Code encode(float value, float reciprocal) {
    // Magnitudes compare as their bits do.
    const std::uint32_t scaled = bits_of(multiply(value, reciprocal));
    const std::uint32_t magnitude = scaled & 0x7FFFFFFFU;
    constexpr std::uint32_t limit = std::bit_cast<std::uint32_t>(qmax);
    const float clamped =
        float_of((scaled & 0x80000000U) | (magnitude < limit ? magnitude : limit));
    // 1.5 * 2^23: the sum's last place is 1, so the adder rounds to nearest even and the low bits
    // of the sum are the integer in two's complement.
    return static_cast<Code>(bits_of(add(clamped, 12582912.0F)) & 0xFFU);
  }

  /// q * s, exact; at the top of fp32's range, where the rounding up of s can make it infinite, the
  /// largest finite value: one step down in the bits.
  ZEROPP_HD static float decode(Code code, float scale) {
    const std::uint32_t value = bits_of(multiply(static_cast<float>(code), scale));
    return float_of((value & 0x7FFFFFFFU) == 0x7F800000U ? value - 1U : value);
  }
  ZEROPP_HD static float accumulate(Code code, float scale, float sum) {
    return fused_multiply_add(static_cast<float>(code), scale, sum);
  }

  /// Half a step, and the rounding of x * (1 / s). A block of scale zero was under qmax * 2^-126.
  static constexpr double error_bound(double /*value*/, double scale) {
    return scale == 0 ? double{qmax} * 0x1p-126 : scale * (0.5 + 0x1p-15);
  }
};

/// For hardware on which integer conversions, shifts and comparisons cost more than fp32
/// arithmetic. Bit for bit what SymmetricInt computes; tests/unit/codec_integer_words.cpp goes
/// through all cases.
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

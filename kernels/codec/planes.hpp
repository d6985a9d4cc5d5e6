// A group: 32 values of one block, the unit in which rules (rule.hpp) work, and how its codes lie
// on the wire. Codes of b bits are stored in planes of 8, 4, 2 and 1 bits, those that add up to b,
// beginning with the widest and the codes' low bits: 7 = 4 + 2 + 1. A plane is dense over the whole
// image, element 0 in the low bits; of a group it has as many words as it has bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codec/unroll.hpp"
#include "kernels/core/macros.hpp"

namespace zeropp::codec {

inline constexpr int kGroup = 32;

/// The words of the group's plane of `kWidth` bits, which holds the codes' bits from `shift` on.
template <unsigned kWidth>
ZEROPP_HD void pack_plane(const std::uint32_t (&codes)[kGroup], unsigned shift,
                          std::uint32_t (&words)[kWidth]) {
  constexpr unsigned kPerWord = 32 / kWidth;
  constexpr std::uint32_t kMask = (1U << kWidth) - 1U;
  ZEROPP_UNROLL for (unsigned k = 0; k < kWidth; ++k) {
    std::uint32_t word = 0;
    ZEROPP_UNROLL for (unsigned i = 0; i < kPerWord; ++i) {
      word |= ((codes[k * kPerWord + i] >> shift) & kMask) << (i * kWidth);
    }
    words[k] = word;
  }
}

/// Adds the bits of a plane to the codes.
template <unsigned kWidth>
ZEROPP_HD void unpack_plane(const std::uint32_t (&words)[kWidth], unsigned shift,
                            std::uint32_t (&codes)[kGroup]) {
  constexpr unsigned kPerWord = 32 / kWidth;
  constexpr std::uint32_t kMask = (1U << kWidth) - 1U;
  ZEROPP_UNROLL for (unsigned i = 0; i < kGroup; ++i) {
    codes[i] |= ((words[i / kPerWord] >> (i % kPerWord * kWidth)) & kMask) << shift;
  }
}

/// The codes of a group of one image. `first`: its first wire value, a multiple of kGroup;
/// `values`: those of all whole blocks of the image.
class GroupCodes {
 public:
  ZEROPP_HD GroupCodes(unsigned bits, std::size_t values, std::size_t first)
      : bits_(bits), plane_words_(values / kGroup), group_(first / kGroup) {}

  /// The low `bits` bits of the codes. `image` begins on 4 bytes.
  ZEROPP_HD void store(const std::uint32_t (&codes)[kGroup], std::byte* image) const {
    unsigned shift = 0;
    store_plane<8>(codes, shift, image);
    store_plane<4>(codes, shift, image);
    store_plane<2>(codes, shift, image);
    store_plane<1>(codes, shift, image);
  }
  ZEROPP_HD void load(const std::byte* image, std::uint32_t (&codes)[kGroup]) const {
    ZEROPP_UNROLL for (std::uint32_t& code : codes) code = 0;
    unsigned shift = 0;
    load_plane<8>(image, shift, codes);
    load_plane<4>(image, shift, codes);
    load_plane<2>(image, shift, codes);
    load_plane<1>(image, shift, codes);
  }

 private:
  /// Offset in bytes of the group's words in the plane that begins with the codes' bit `shift`.
  [[nodiscard]] ZEROPP_HD std::size_t offset(unsigned width, unsigned shift) const {
    return (plane_words_ * shift + group_ * width) * sizeof(std::uint32_t);
  }
  template <unsigned kWidth>
  ZEROPP_HD void store_plane(const std::uint32_t (&codes)[kGroup], unsigned& shift,
                             std::byte* image) const {
    if ((bits_ & kWidth) == 0) return;
    std::uint32_t words[kWidth];
    pack_plane<kWidth>(codes, shift, words);
    auto* const to = reinterpret_cast<std::uint32_t*>(image + offset(kWidth, shift));
    ZEROPP_UNROLL for (unsigned k = 0; k < kWidth; ++k) to[k] = words[k];
    shift += kWidth;
  }
  template <unsigned kWidth>
  ZEROPP_HD void load_plane(const std::byte* image, unsigned& shift,
                            std::uint32_t (&codes)[kGroup]) const {
    if ((bits_ & kWidth) == 0) return;
    const auto* const from = reinterpret_cast<const std::uint32_t*>(image + offset(kWidth, shift));
    std::uint32_t words[kWidth];
    ZEROPP_UNROLL for (unsigned k = 0; k < kWidth; ++k) words[k] = from[k];
    unpack_plane<kWidth>(words, shift, codes);
    shift += kWidth;
  }

  unsigned bits_;
  std::size_t plane_words_;  ///< of a plane of one bit
  std::size_t group_;
};

}  // namespace zeropp::codec

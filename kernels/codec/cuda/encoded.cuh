// Wire values in the registers of one thread: a chunk of kChunk values of one image, as it was
// read. The code that decodes and sums is written once for both kinds of formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/codec.hpp"
#include "kernels/codec/cuda/vector.cuh"
#include "kernels/codec/format.hpp"
#include "kernels/codec/symmetric_int.hpp"
#include "kernels/codec/wire.hpp"

namespace zeropp::codec::cuda {

/// Where the parts of an image lie; the block as its logarithm, so that no kernel divides.
struct ImageShape {
  WireShape wire;
  int log2_block = 0;

  template <class Format>
  static ImageShape of(std::size_t n, std::size_t block) {
    if constexpr (ScaledFormat<Format>) {
      return {wire_shape(n, block, Format::bits, sizeof(typename Format::Scale)),
              std::countr_zero(block)};
    } else {
      return {wire_shape(n, 1, Format::bits, 0), 0};
    }
  }
};

/// kCount codes of a payload, element 0 in the low bits.
template <ScaledFormat Format, int kCount>
struct Codes {
  static constexpr unsigned kBits = Format::bits;
  static constexpr int kPerWord = 32 / static_cast<int>(kBits);
  static constexpr int kWords = kCount / kPerWord;
  static_assert(32 % kBits == 0 && kCount % kPerWord == 0, "whole words of codes");
  std::uint32_t words[kWords] = {};

  /// Signed codes are sign-extended.
  [[nodiscard]] __device__ __forceinline__ typename Format::Code get(int i) const {
    const std::uint32_t top = words[i / kPerWord]
                              << (32U - kBits - static_cast<unsigned>(i % kPerWord) * kBits);
    if constexpr (std::is_signed_v<typename Format::Code>) {
      return static_cast<typename Format::Code>(static_cast<std::int32_t>(top) >> (32U - kBits));
    } else {
      return static_cast<typename Format::Code>(top >> (32U - kBits));
    }
  }
  /// Once for every i.
  __device__ __forceinline__ void set(int i, typename Format::Code code) {
    constexpr std::uint32_t mask = (1U << kBits) - 1U;
    words[i / kPerWord] |= (static_cast<std::uint32_t>(code) & mask)
                           << (static_cast<unsigned>(i % kPerWord) * kBits);
  }
};

/// The codes of the values of one block, by SymmetricIntWords or value by value.
template <ScaledFormat Format, int kCount>
__device__ __forceinline__ Codes<Format, kCount> encode_codes(const float (&values)[kCount],
                                                              float reciprocal) {
  Codes<Format, kCount> codes;
  if constexpr (InSymmetricIntWords<Format>) {
#pragma unroll
    for (int i = 0; i < codes.kWords; ++i) {
      codes.words[i] =
          SymmetricIntWords<Format::bits>::encode(values + i * codes.kPerWord, reciprocal);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) codes.set(i, Format::encode(values[i], reciprocal));
  }
  return codes;
}

template <class Memory, ScaledFormat Format>
__device__ __forceinline__ Vector<Memory> decode_codes(const Codes<Format, kWidth>& codes,
                                                       float scale) {
  float values[kWidth];
  if constexpr (InSymmetricIntWords<Format>) {
    using Words = SymmetricIntWords<Format::bits>;
    constexpr int top = std::is_same_v<Memory, Fp16> ? 15 : 127;
    if (Words::products_reach_at_most(top, scale)) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        values[i] =
            multiply(Words::value(codes.words[i / codes.kPerWord], i % codes.kPerWord), scale);
      }
      return round_to<Memory>(values);
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = Format::decode(codes.get(i), scale);
  return is_finite_bits(bits_of(scale)) ? narrow_finite<Memory>(values) : narrow<Memory>(values);
}

template <ScaledFormat Format, int kCount>
__device__ __forceinline__ void accumulate_codes(const Codes<Format, kCount>& codes, float scale,
                                                 float (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (InSymmetricIntWords<Format>) {
      const float value = SymmetricIntWords<Format::bits>::value(codes.words[i / codes.kPerWord],
                                                                 i % codes.kPerWord);
      sum[i] = fused_multiply_add(value, scale, sum[i]);
    } else {
      sum[i] = Format::accumulate(codes.get(i), scale, sum[i]);
    }
  }
}

/// Where the scale of wire value `first` + `ahead` lies; `first` begins a block, or `ahead` is 0.
template <ScaledFormat Format>
__device__ __forceinline__ const typename Format::Scale* scale_at(const std::byte* image,
                                                                  const ImageShape& shape,
                                                                  std::size_t first,
                                                                  unsigned ahead = 0) {
  const auto log2_block = static_cast<unsigned>(shape.log2_block);
  const auto* const scales =
      reinterpret_cast<const typename Format::Scale*>(image + shape.wire.scale_offset) +
      (first >> log2_block);
  return scales + (ahead >> log2_block);
}
template <ScaledFormat Format>
__device__ __forceinline__ float load_scale(const std::byte* image, const ImageShape& shape,
                                            std::size_t first, unsigned ahead = 0) {
  return Format::scale_value(*scale_at<Format>(image, shape, first, ahead));
}

/// The chunk of wire values from `first` + `ahead` on, a multiple of kChunk inside the image;
/// `first` begins a block, or `ahead` is 0.
template <class Format, int kChunk>
struct Encoded;

template <ScaledFormat Format, int kChunk>
struct Encoded<Format, kChunk> {
  static_assert(Format::minimum_block % kChunk == 0, "one scale a chunk");
  Codes<Format, kChunk> codes;
  float scale = 0.0F;

  __device__ __forceinline__ void load(const std::byte* image, const ImageShape& shape,
                                       std::size_t first, unsigned ahead = 0) {
    load_words(image + first * Format::bits / 8 + ahead * Format::bits / 8, codes.words);
    scale = load_scale<Format>(image, shape, first, ahead);
  }
  template <class Memory>
  [[nodiscard]] __device__ __forceinline__ Vector<Memory> decode() const {
    return decode_codes<Memory>(codes, scale);
  }
  __device__ __forceinline__ void accumulate(float (&sum)[kChunk]) const {
    accumulate_codes(codes, scale, sum);
  }
};

template <CastFormat Format>
struct Encoded<Format, kWidth> {
  using Wire = typename Format::Wire;
  Vector<Wire> values;

  __device__ __forceinline__ void load(const std::byte* image, const ImageShape& shape,
                                       std::size_t first, unsigned ahead = 0) {
    const std::byte* const from = image + first * sizeof(Wire) + ahead * sizeof(Wire);
    if constexpr (sizeof(Wire) == 4) {
      // The padded image may end in the middle of the vector: what is beyond is not read, and of
      // what stands in for it nothing is stored.
      const bool half = (first + ahead + kWidth) * sizeof(Wire) > shape.wire.bytes;
      std::uint32_t words[2][kWidth / 2];
      load_words(from, words[0]);
      load_words(half ? from : from + 16, words[1]);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values.words[i] = words[i / 4][i % 4];
    } else {
      load_words(from, values.words);
    }
  }
  template <class Memory>
  [[nodiscard]] __device__ __forceinline__ Vector<Memory> decode() const {
    return cast<Memory>(values);
  }
  __device__ __forceinline__ void accumulate(float (&sum)[kWidth]) const {
    float wide[kWidth];
    widen(values, wide);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] = add(sum[i], wide[i]);
  }
};

/// sum += the chunks of `images` images, in image order; loads of kAtOnce images are in flight.
template <class Format, int kChunk, int kAtOnce = 4>
__device__ __forceinline__ void accumulate_images(const ConstWireImages& in, std::size_t images,
                                                  const ImageShape& shape, std::size_t first,
                                                  float (&sum)[kChunk]) {
  const std::byte* image = in.data;
  std::size_t left = images;
  for (; left >= kAtOnce; left -= kAtOnce) {
    Encoded<Format, kChunk> chunks[kAtOnce];
#pragma unroll
    for (Encoded<Format, kChunk>& chunk : chunks) {
      chunk.load(image, shape, first);
      image += in.stride;
    }
    // The assembler would put off loads to save registers, and wait for one after the other.
    __syncwarp(__activemask());
#pragma unroll
    for (const Encoded<Format, kChunk>& chunk : chunks) chunk.accumulate(sum);
  }
#pragma unroll 1
  for (; left > 0; --left) {
    Encoded<Format, kChunk> chunk;
    chunk.load(image, shape, first);
    chunk.accumulate(sum);
    image += in.stride;
  }
}

}  // namespace zeropp::codec::cuda

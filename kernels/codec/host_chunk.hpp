// A chunk: as many values of one block as the host handles at a time, in memory and on the wire.
// PlainChunk computes it value by value, by the functions of any format; IntegerChunk computes the
// usual integers in vectors. HostChunk<Format> is the one that runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/codec/host_vectors.hpp"
#include "kernels/codec/packing.hpp"
#include "kernels/codec/symmetric_int.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// The images of a sum, of one shape.
struct Summands {
  ConstWireImages in;
  std::size_t images;
  WireShape shape;
  [[nodiscard]] const std::byte* image(std::size_t index) const {
    return in.data + index * in.stride;
  }
};

/// The fp32 factor of block `index` of an image.
template <ScaledFormat Format>
inline float load_scale(const std::byte* image, const WireShape& shape, std::size_t index) {
  typename Format::Scale stored;
  std::memcpy(&stored, image + shape.scale_offset + index * sizeof(stored), sizeof(stored));
  return Format::scale_value(stored);
}

template <ScaledFormat Format,
          int kCount = Format::minimum_block<32 ? Format::minimum_block : 32> struct PlainChunk {
  static constexpr int kValues = kCount;
  using Codes = typename Format::Code[kValues];

  /// kValues finite values of a block; `reciprocal` is that of its stored scale.
  template <class Memory>
  static void encode(const Memory* values, float reciprocal, std::uint8_t* payload) {
    Codes codes;
    for (int i = 0; i < kValues; ++i) codes[i] = Format::encode(to_float(values[i]), reciprocal);
    pack<Format::bits, kValues>(codes, payload);
  }

  template <class Memory>
  static void decode(const std::uint8_t* payload, float scale, Memory* values) {
    Codes codes;
    unpack<Format::bits, kValues>(payload, codes);
    for (int i = 0; i < kValues; ++i) {
      values[i] = saturating_cast<Memory>(Format::decode(codes[i], scale));
    }
  }

  /// sum[i] = (from_zero ? 0 : sum[i]) + the values at `payload_offset` of all images, which lie in
  /// block `block`, in image order.
  static void accumulate(const Summands& from, std::size_t payload_offset, std::size_t block,
                         bool from_zero, float* sum) {
    if (from_zero) std::fill_n(sum, kValues, 0.0F);
    for (std::size_t k = 0; k < from.images; ++k) {
      const std::byte* const image = from.image(k);
      const float scale = load_scale<Format>(image, from.shape, block);
      Codes codes;
      unpack<Format::bits, kValues>(reinterpret_cast<const std::uint8_t*>(image) + payload_offset,
                                    codes);
      for (int i = 0; i < kValues; ++i) sum[i] = Format::accumulate(codes[i], scale, sum[i]);
    }
    for (int i = 0; i < kValues; ++i) sum[i] = saturating_cast<float>(sum[i]);
  }
};

/// Four codes share a word of 32 or 16 bits, and so a lane of a quad.
template <class Format>
concept InQuads = ScaledFormat<Format> && InSymmetricIntWords<Format> &&
    (Format::bits == 4 || Format::bits == 8);

/// With the bits of PlainChunk: tests/unit/codec_host_chunks.cpp compares them.
template <InQuads Format>
struct IntegerChunk {
  static constexpr int kValues = Quad::kValues;
  static constexpr int kBits = Format::bits;
  using WordMaths = SymmetricIntWords<kBits>;
  using Payload = HostVector<std::conditional_t<kBits == 8, std::uint32_t, std::uint16_t>, kLanes>;

  template <class Memory>
  static void encode(const Memory* values, float reciprocal, std::uint8_t* payload) {
    // Encodes as SymmetricIntWords::encode does, whose test says why it needs no clamp.
    constexpr float magic = 12582912.0F;
    constexpr float biased = magic + static_cast<float>(WordMaths::kBias);
    const Quad quad = load_quad(values);
    Words word = {};
    for (int k = 3; k >= 0; --k) {
      word = (word << static_cast<unsigned>(kBits)) +
             reinterpret_cast<Words>(quad.values[k] * reciprocal + biased);
    }
    word = (word - WordMaths::every(bits_of(magic))) ^ WordMaths::every(WordMaths::kBias);
    store_vector(__builtin_convertvector(word, Payload), payload);
  }

  template <class Memory>
  static void decode(const std::uint8_t* payload, float scale, Memory* values) {
    constexpr int top = std::is_same_v<Memory, Fp16> ? 15 : 127;
    if (!WordMaths::products_reach_at_most(top, scale)) [[unlikely]] {
      PlainChunk<Format, kValues>::decode(payload, scale, values);
      return;
    }
    Quad quad = load_codes(payload);
    for (Floats& vector : quad.values) vector = vector * scale;
    store_quad(quad, values);
  }

  static void accumulate(const Summands& from, std::size_t payload_offset, std::size_t block,
                         bool from_zero, float* sum) {
    Quad total = {};
    if (!from_zero) total = load_quad(sum);
    for (std::size_t k = 0; k < from.images; ++k) {
      const std::byte* const image = from.image(k);
      const float scale = load_scale<Format>(image, from.shape, block);
      const Quad codes = load_codes(reinterpret_cast<const std::uint8_t*>(image) + payload_offset);
      for (int i = 0; i < 4; ++i) {
        total.values[i] = fused_multiply_add(codes.values[i], scale, total.values[i]);
      }
    }
    const Floats nan = Floats{} + float_of(kCanonicalNan32);
    for (Floats& vector : total.values) {
      const Floats same = vector;
      vector = vector == same ? vector : nan;  // a NaN equals nothing, not itself either
    }
    store_quad(total, sum);
  }

 private:
  static Quad load_codes(const std::uint8_t* payload) {
    const Words word = __builtin_convertvector(load_vector<Payload>(payload), Words);
    Quad quad;
    for (int k = 0; k < 4; ++k) {
      const auto top = reinterpret_cast<HostVector<std::int32_t>>(
          word << static_cast<unsigned>(32 - kBits * (k + 1)));
      quad.values[k] = __builtin_convertvector(top >> (32 - kBits), Floats);
    }
    return quad;
  }
};

/// How the host computes chunks of a format.
template <ScaledFormat Format>
struct HostChunkOf {
  using Type = PlainChunk<Format>;
};
template <InQuads Format>
struct HostChunkOf<Format> {
  using Type = IntegerChunk<Format>;
};
template <ScaledFormat Format>
using HostChunk = typename HostChunkOf<Format>::Type;

}  // namespace zeropp::codec

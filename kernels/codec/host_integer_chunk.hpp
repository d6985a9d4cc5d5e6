// A chunk of SymmetricInt in vectors, with the bits of PlainChunk: tests/unit/codec_host_chunks.cpp
// compares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/codec/host_chunk.hpp"
#include "kernels/codec/host_vectors.hpp"
#include "kernels/codec/symmetric_int_words.hpp"

namespace zeropp::codec {

/// Four codes share a word of 32 or 16 bits, and so a lane of a quad.
template <class Format>
concept InQuads = ScaledFormat<Format> && InSymmetricIntWords<Format> &&
    (Format::bits == 4 || Format::bits == 8);

template <InQuads Format>
struct IntegerChunk {
  static constexpr int kValues = Quad::kValues;
  static constexpr int kBits = Format::bits;
  using WordMaths = SymmetricIntWords<kBits>;
  using Payload = HostVector<std::conditional_t<kBits == 8, std::uint32_t, std::uint16_t>, kLanes>;

  template <class Memory>
  static void encode(const Memory* values, float reciprocal, std::uint8_t* payload) {
    // As SymmetricIntWords::encode, whose test says why it needs no clamp.
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

// A chunk: as many values of one block as the host handles at a time, in memory and on the wire,
// computed value by value by the functions of any format. host_integer_chunk.hpp computes the usual
// integers in vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/codec/packing.hpp"
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

}  // namespace zeropp::codec

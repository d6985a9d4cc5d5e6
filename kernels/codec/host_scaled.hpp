// Host kernels of scaled formats: blocks in memory and on the wire, chunk by chunk. A wire image
// holds whole blocks, so a chunk is never cut on the wire.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/codec/format.hpp"
#include "kernels/codec/host_chunk.hpp"
#include "kernels/codec/host_kernels.hpp"
#include "kernels/codec/host_vectors.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

template <ScaledFormat Format>
constexpr WireShape wire_shape_of(std::size_t n, std::size_t block) {
  return wire_shape(n, block, Format::bits, sizeof(typename Format::Scale));
}

/// Block `index` of the image at `image`; the last one writes the image's padding as well.
template <ScaledFormat Format, class Memory>
void encode_block(const Memory* values, std::size_t block, std::size_t index,
                  const WireShape& shape, std::byte* image) {
  using Chunk = HostChunk<Format>;
  static_assert(Format::minimum_block % 16 == 0, "see largest_magnitude()");
  auto* const payload = reinterpret_cast<std::uint8_t*>(image) + index * block * Format::bits / 8;
  const std::uint32_t largest = largest_magnitude(values, block);
  auto scale = Format::non_finite_scale();
  if (is_finite_bits(largest)) {
    scale = Format::scale_of(float_of(largest));
    const float reciprocal = Format::reciprocal(scale);
    for (std::size_t i = 0; i < block; i += Chunk::kValues) {
      Chunk::encode(values + i, reciprocal, payload + i * Format::bits / 8);
    }
  } else {
    std::memset(payload, 0, block * Format::bits / 8);
  }
  std::memcpy(image + shape.scale_offset + index * sizeof(scale), &scale, sizeof(scale));
  if (index + 1 == shape.blocks) zero_padding(shape, image);
}

/// Visits the chunks of wire elements [first, last): visit(chunk_first, begin, end), the part
/// [begin, end) of the chunk lying in the range.
template <ScaledFormat Format, class Visit>
void for_each_chunk(std::size_t first, std::size_t last, const Visit& visit) {
  constexpr std::size_t chunk = HostChunk<Format>::kValues;
  for (std::size_t start = first - first % chunk; start < last; start += chunk) {
    visit(start, start < first ? first - start : 0, std::min(chunk, last - start));
  }
}

/// out[0 .. last - first) = (from_zero ? 0 : out) + wire elements [first, last) of all images,
/// which lie in one block, summed in image order.
template <ScaledFormat Format>
void accumulate_in_block(const Summands& from, std::size_t block_index, std::size_t first,
                         std::size_t last, bool from_zero, float* out) {
  using Chunk = HostChunk<Format>;
  for_each_chunk<Format>(first, last, [&](std::size_t start, std::size_t begin, std::size_t end) {
    const std::size_t bytes = (end - begin) * sizeof(float);
    float* const target = out + (start + begin - first);
    const std::size_t payload = start * Format::bits / 8;
    if (end - begin == Chunk::kValues) {
      Chunk::accumulate(from, payload, block_index, from_zero, target);
      return;
    }
    float sum[Chunk::kValues] = {};
    if (!from_zero) std::memcpy(sum + begin, target, bytes);
    Chunk::accumulate(from, payload, block_index, from_zero, sum);
    std::memcpy(target, sum + begin, bytes);
  });
}

/// Accumulates wire elements of any number of blocks, as accumulate_in_block() does those of one.
template <ScaledFormat Format>
void accumulate_range(const Summands& from, std::size_t block, std::size_t first, std::size_t last,
                      bool from_zero, float* out) {
  std::size_t index = first / block;
  for (std::size_t begin = first; begin < last; ++index) {
    const std::size_t end = std::min(last, (index + 1) * block);
    accumulate_in_block<Format>(from, index, begin, end, from_zero, out + (begin - first));
    begin = end;
  }
}

template <ScaledFormat Format>
struct HostKernels<Format> {
  template <class Memory>
  static void encode(const Params& params, const Memory* memory, const Layout& layout,
                     WireImages out) {
    const std::size_t n = layout.wire_elements();
    const std::size_t block = params.block;
    const WireShape shape = wire_shape_of<Format>(n, block);
    for_block_ranges("encode", layout.images, shape.blocks, block,
                     [=](std::size_t image, std::size_t first, std::size_t last) {
                       WireWalk walk(layout, image, first * block);
                       for (std::size_t index = first; index < last; ++index) {
                         Memory buffer[kLargestBlock];
                         const std::size_t count = std::min(block, n - index * block);
                         const Memory* const values =
                             load_block(memory, walk, count, block, params.rounded, buffer);
                         encode_block<Format>(values, block, index, shape,
                                              out.data + image * out.stride);
                       }
                     });
  }

  template <class Memory, bool kOnto>
  static void decode(const Params& params, ConstWireImages in, const Layout& layout,
                     Memory* memory) {
    const std::size_t n = layout.wire_elements();
    const std::size_t block = params.block;
    const WireShape shape = wire_shape_of<Format>(n, block);
    for_block_ranges(
        "decode", layout.images, shape.blocks, block,
        [=](std::size_t image, std::size_t first, std::size_t last) {
          const std::byte* const encoded = in.data + image * in.stride;
          WireWalk walk(layout, image, first * block);
          for (std::size_t index = first; index < last; ++index) {
            const float scale = load_scale<Format>(encoded, shape, index);
            walk.next(std::min(block, n - index * block),
                      [&](std::size_t offset, std::size_t wire, std::size_t valid, std::size_t) {
                        store<kOnto>(encoded, scale, wire, wire + valid, memory + offset);
                      });
          }
        });
  }

  /// sum = (from_zero ? 0 : sum) + the first n values of `images` images.
  static void accumulate(const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, bool from_zero, float* sum) {
    const std::size_t block = params.block;
    const Summands from{in, images, wire_shape_of<Format>(wire_elements, block)};
    for_block_ranges("accumulate", 1, (n + block - 1) / block, block,
                     [=](std::size_t, std::size_t first_block, std::size_t last_block) {
                       const std::size_t first = first_block * block;
                       accumulate_range<Format>(from, block, first, std::min(last_block * block, n),
                                                from_zero, sum + first);
                     });
  }

 private:
  /// Wire elements [first, last), which lie in one block, go to out, or onto it.
  template <bool kOnto, class Memory>
  static void store(const std::byte* image, float scale, std::size_t first, std::size_t last,
                    Memory* out) {
    using Chunk = HostChunk<Format>;
    for_each_chunk<Format>(first, last, [&](std::size_t start, std::size_t begin, std::size_t end) {
      const auto* const payload =
          reinterpret_cast<const std::uint8_t*>(image) + start * Format::bits / 8;
      Memory* const target = out + (start + begin - first);
      if constexpr (kOnto) {
        float values[Chunk::kValues];
        Chunk::decode(payload, scale, values);
        for (std::size_t i = begin; i < end; ++i) put<true>(values[i], target[i - begin]);
        return;
      }
      if (end - begin == Chunk::kValues) {
        Chunk::decode(payload, scale, target);
        return;
      }
      Memory values[Chunk::kValues];
      Chunk::decode(payload, scale, values);
      std::memcpy(target, values + begin, (end - begin) * sizeof(Memory));
    });
  }
};

}  // namespace zeropp::codec

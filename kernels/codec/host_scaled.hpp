// Host kernels of scaled formats. All loops are over chunks of a fixed number of values, so that
// the compiler turns them into straight vector code; a wire image holds whole blocks, so a chunk is
// never cut on the wire.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/codec/format.hpp"
#include "kernels/codec/host_layout.hpp"
#include "kernels/codec/packing.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

template <ScaledFormat Format>
inline constexpr int kChunk = Format::minimum_block < 32 ? int{Format::minimum_block} : 32;

template <ScaledFormat Format>
constexpr WireShape wire_shape_of(std::size_t n, std::size_t block) {
  return wire_shape(n, block, Format::bits, sizeof(typename Format::Scale));
}

/// One block: `block` values -> its payload and its scale.
template <ScaledFormat Format>
void encode_block(const float* values, std::size_t block, std::uint8_t* payload,
                  std::byte* stored_scale) {
  constexpr int chunk = kChunk<Format>;
  constexpr std::size_t chunk_bytes = chunk * Format::bits / 8;
  // The largest magnitude, compared as integers: unlike fmax this drops no NaN.
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < block; ++i) {
    const std::uint32_t magnitude = bits_of(values[i]) & 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
  }
  auto scale = Format::non_finite_scale();
  if (is_finite_bits(largest)) {
    scale = Format::scale_of(float_of(largest));
    const float reciprocal = Format::reciprocal(scale);
    for (std::size_t first = 0; first < block; first += chunk) {
      typename Format::Code codes[chunk];
      for (int i = 0; i < chunk; ++i) codes[i] = Format::encode(values[first + i], reciprocal);
      pack<Format::bits, chunk>(codes, payload);
      payload += chunk_bytes;
    }
  } else {
    std::memset(payload, 0, block * Format::bits / 8);
  }
  std::memcpy(stored_scale, &scale, sizeof(scale));
}

/// Block `index` of the image at `image`; the last one writes the image's padding as well.
template <ScaledFormat Format>
void encode_block_at(const float* values, std::size_t block, std::size_t index,
                     const WireShape& shape, std::byte* image) {
  encode_block<Format>(values, block,
                       reinterpret_cast<std::uint8_t*>(image) + index * block * Format::bits / 8,
                       image + shape.scale_offset + index * sizeof(typename Format::Scale));
  if (index + 1 == shape.blocks) zero_padding(shape, image);
}

/// A wire image that is read.
template <ScaledFormat Format>
class EncodedImage {
 public:
  EncodedImage(const std::byte* image, const WireShape& shape)
      : payload_(reinterpret_cast<const std::uint8_t*>(image)),
        scales_(image + shape.scale_offset) {}

  [[nodiscard]] float scale(std::size_t block_index) const {
    typename Format::Scale stored;
    std::memcpy(&stored, scales_ + block_index * sizeof(stored), sizeof(stored));
    return Format::scale_value(stored);
  }
  /// The chunk that begins at wire element `first`.
  void codes(std::size_t first, typename Format::Code* out) const {
    unpack<Format::bits, kChunk<Format>>(payload_ + first * Format::bits / 8, out);
  }

 private:
  const std::uint8_t* payload_;
  const std::byte* scales_;
};

/// Visits wire elements [first, last) chunk by chunk: visit(chunk_first, begin, end), the part
/// [begin, end) of the chunk lying in the range.
template <ScaledFormat Format, class Visit>
void for_each_chunk(std::size_t first, std::size_t last, const Visit& visit) {
  constexpr std::size_t chunk = kChunk<Format>;
  for (std::size_t start = first / chunk * chunk; start < last; start += chunk) {
    visit(start, start < first ? first - start : 0, std::min(chunk, last - start));
  }
}

/// out[0 .. last - first) = (from_zero ? 0 : out) + wire elements [first, last) of `images` images,
/// summed in image order.
template <ScaledFormat Format>
void accumulate_range(ConstWireImages in, std::size_t images, const WireShape& shape,
                      std::size_t block, std::size_t first, std::size_t last, bool from_zero,
                      float* out) {
  constexpr int chunk = kChunk<Format>;
  for_each_chunk<Format>(first, last, [&](std::size_t start, std::size_t begin, std::size_t end) {
    float sum[chunk] = {};
    float* const target = out + (start + begin - first);
    if (!from_zero) std::memcpy(sum + begin, target, (end - begin) * sizeof(float));
    const std::size_t block_index = start / block;
    for (std::size_t image = 0; image < images; ++image) {
      const EncodedImage<Format> encoded(in.data + image * in.stride, shape);
      const float scale = encoded.scale(block_index);
      typename Format::Code codes[chunk];
      encoded.codes(start, codes);
      for (int i = 0; i < chunk; ++i) sum[i] = Format::accumulate(codes[i], scale, sum[i]);
    }
    for (int i = 0; i < chunk; ++i) sum[i] = saturating_cast<float>(sum[i]);
    std::memcpy(target, sum + begin, (end - begin) * sizeof(float));
  });
}

template <ScaledFormat Format, class Memory>
struct HostKernels<Format, Memory> {
  static void encode(const Params& params, const Memory* memory, const Layout& layout,
                     WireImages out) {
    const std::size_t n = layout.wire_elements();
    const std::size_t block = params.block;
    const WireShape shape = wire_shape_of<Format>(n, block);
    host_for("encode", layout.images * shape.blocks, [=](std::size_t task) {
      const std::size_t image = task / shape.blocks;
      const std::size_t index = task - image * shape.blocks;
      float buffer[kLargestBlock];
      const float* const values = load(memory, layout, image, index * block, block, buffer);
      encode_block_at<Format>(values, block, index, shape, out.data + image * out.stride);
    });
  }

  static void decode(const Params& params, ConstWireImages in, const Layout& layout,
                     Memory* memory) {
    const std::size_t n = layout.wire_elements();
    const std::size_t block = params.block;
    const WireShape shape = wire_shape_of<Format>(n, block);
    host_for("decode", layout.images * shape.blocks, [=](std::size_t task) {
      const std::size_t image = task / shape.blocks;
      const std::size_t index = task - image * shape.blocks;
      const EncodedImage<Format> encoded(in.data + image * in.stride, shape);
      const float scale = encoded.scale(index);
      const std::size_t first = index * block;
      for_each_run(layout, image, first, std::min(first + block, n),
                   [&](std::size_t offset, std::size_t wire, std::size_t valid, std::size_t) {
                     store(encoded, scale, wire, wire + valid, memory + offset);
                   });
    });
  }

 private:
  /// The block of wire elements from `first` on as fp32, zeros where there is no memory: in place
  /// where it lies in memory so, else in `buffer`.
  static const float* load(const Memory* memory, const Layout& layout, std::size_t image,
                           std::size_t first, std::size_t block, float* buffer) {
    const float* in_place = nullptr;
    float* next = buffer;
    const std::size_t last = std::min(first + block, layout.wire_elements());
    for_each_run(layout, image, first, last,
                 [&](std::size_t offset, std::size_t, std::size_t valid, std::size_t zeros) {
                   if constexpr (std::is_same_v<Memory, float>) {
                     if (valid == block) {
                       in_place = memory + offset;
                       return;
                     }
                   }
                   for (std::size_t i = 0; i < valid; ++i) next[i] = to_float(memory[offset + i]);
                   std::fill_n(next + valid, zeros, 0.0F);
                   next += valid + zeros;
                 });
    if (in_place != nullptr) return in_place;
    std::fill(next, buffer + block, 0.0F);
    return buffer;
  }

  /// out[0 .. last - first) = wire elements [first, last), which lie in one block.
  static void store(const EncodedImage<Format>& encoded, float scale, std::size_t first,
                    std::size_t last, Memory* out) {
    constexpr int chunk = kChunk<Format>;
    for_each_chunk<Format>(first, last, [&](std::size_t start, std::size_t begin, std::size_t end) {
      typename Format::Code codes[chunk];
      encoded.codes(start, codes);
      Memory values[chunk];
      for (int i = 0; i < chunk; ++i) {
        values[i] = saturating_cast<Memory>(Format::decode(codes[i], scale));
      }
      std::memcpy(out + (start + begin - first), values + begin, (end - begin) * sizeof(Memory));
    });
  }
};

/// sum = (from_zero ? 0 : sum) + the first n values of `images` images.
template <ScaledFormat Format>
void host_accumulate(const Params& params, ConstWireImages in, std::size_t images,
                     std::size_t wire_elements, std::size_t n, bool from_zero, float* sum) {
  const std::size_t block = params.block;
  const WireShape shape = wire_shape_of<Format>(wire_elements, block);
  host_for("accumulate", (n + block - 1) / block, [=](std::size_t index) {
    const std::size_t first = index * block;
    accumulate_range<Format>(in, images, shape, block, first, std::min(first + block, n), from_zero,
                             sum + first);
  });
}

}  // namespace zeropp::codec

// Host kernels of rules: blocks group by group, with the functions that CUDA runs as well.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/codec/host_kernels.hpp"
#include "kernels/codec/planes.hpp"
#include "kernels/codec/rounding.hpp"
#include "kernels/codec/rule.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

template <class Rule>
struct RuleKernels {
  using Stored = typename Rule::Stored;
  using Transform = typename Rule::Transform;

  template <class Memory>
  static void encode(const Params& params, const Memory* memory, const Layout& layout,
                     WireImages out) {
    const std::size_t n = layout.wire_elements();
    const std::size_t block = params.block;
    const WireShape shape = shape_of(params, n);
    if constexpr (Rule::scales_images) scale_images(params, memory, layout, out);
    for_block_ranges("encode", layout.images, shape.blocks, block,
                     [=](std::size_t image, std::size_t first, std::size_t last) {
                       std::byte* const encoded = out.data + image * out.stride;
                       const Rule rule = rule_of_image<Rule>(params.numbers, shape, encoded);
                       WireWalk walk(layout, image, first * block);
                       for (std::size_t index = first; index < last; ++index) {
                         Memory buffer[kLargestBlock];
                         const std::size_t count = std::min(block, n - index * block);
                         const Memory* const values =
                             load_block(memory, walk, count, block, params.rounded, buffer);
                         encode_block(
                             rule, values, params, index, shape, encoded, [&](std::size_t wire) {
                               return params.draw.number(image, wire, layout.slices, layout.padded);
                             });
                       }
                     });
  }

  template <class Memory, bool kOnto>
  static void decode(const Params& params, ConstWireImages in, const Layout& layout,
                     Memory* memory) {
    const std::size_t n = layout.wire_elements();
    const std::size_t block = params.block;
    const WireShape shape = shape_of(params, n);
    for_block_ranges(
        "decode", layout.images, shape.blocks, block,
        [=](std::size_t image, std::size_t first, std::size_t last) {
          const std::byte* const encoded = in.data + image * in.stride;
          const Rule rule = rule_of_image<Rule>(params.numbers, shape, encoded);
          WireWalk walk(layout, image, first * block);
          for (std::size_t index = first; index < last; ++index) {
            const auto factors = rule.decoding(load_stored(encoded, shape, index));
            for (std::size_t at = index * block; at < std::min((index + 1) * block, n);
                 at += kGroup) {
              float values[kGroup];
              const Codes codes(rule, shape, block, at, encoded);
              for (int i = 0; i < kGroup; ++i)
                values[i] = rule.decode(codes.codes[i], factors.at(i));
              Transform::apply(values);
              walk.next(std::min<std::size_t>(kGroup, n - at),
                        [&](std::size_t offset, std::size_t wire, std::size_t valid, std::size_t) {
                          for (std::size_t i = 0; i < valid; ++i) {
                            put<kOnto>(values[wire - at + i], memory[offset + i]);
                          }
                        });
            }
          }
        });
  }

  /// sum = (from_zero ? 0 : sum) + the first n values of `images` images. Rotated values are summed
  /// apart and rotated back at the end.
  static void accumulate(const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, bool from_zero, float* sum) {
    const std::size_t block = params.block;
    const WireShape shape = shape_of(params, wire_elements);
    host_for("accumulate", (n + kGroup - 1) / kGroup, [=](std::size_t group) {
      const std::size_t first = group * kGroup;
      const std::size_t count = std::min<std::size_t>(kGroup, n - first);
      float values[kGroup] = {};
      if (!from_zero && !Transform::rotates) {
        std::memcpy(values, sum + first, count * sizeof(float));
      }
      for (std::size_t k = 0; k < images; ++k) {
        const std::byte* const image = in.data + k * in.stride;
        const Rule rule = rule_of_image<Rule>(params.numbers, shape, image);
        const auto factors = rule.decoding(load_stored(image, shape, first / block));
        const Codes codes(rule, shape, block, first, image);
        for (int i = 0; i < kGroup; ++i) {
          values[i] = rule.accumulate(codes.codes[i], factors.at(i), values[i]);
        }
      }
      Transform::apply(values);
      if (!from_zero && Transform::rotates) {
        for (std::size_t i = 0; i < count; ++i) values[i] = add(sum[first + i], values[i]);
      }
      for (std::size_t i = 0; i < count; ++i) sum[first + i] = saturating_cast<float>(values[i]);
    });
  }

 private:
  struct Codes {
    std::uint32_t codes[kGroup];
    Codes(const Rule& rule, const WireShape& shape, std::size_t block, std::size_t first,
          const std::byte* image) {
      GroupCodes(rule.numbers.bits, shape.blocks * block, first).load(image, codes);
    }
  };

  static WireShape shape_of(const Params& params, std::size_t n) {
    return wire_shape(n, params.block, params.numbers.bits, sizeof(Stored), Rule::scales_images);
  }

  /// Writes the scale of each image: the largest that one of its blocks asks for.
  template <class Memory>
  static void scale_images(const Params& params, const Memory* memory, const Layout& layout,
                           WireImages out) {
    const std::size_t n = layout.wire_elements();
    const std::size_t block = params.block;
    const WireShape shape = shape_of(params, n);
    if (n == 0) return;
    for (std::size_t image = 0; image < layout.images; ++image) {
      std::memset(out.data + image * out.stride + shape.image_offset, 0,
                  shape.bytes - shape.image_offset);
    }
    for_block_ranges(
        "scale_images", layout.images, shape.blocks, block,
        [=](std::size_t image, std::size_t first, std::size_t last) {
          WireWalk walk(layout, image, first * block);
          float largest = 0;
          for (std::size_t index = first; index < last; ++index) {
            Memory buffer[kLargestBlock];
            const std::size_t count = std::min(block, n - index * block);
            const Memory* const values =
                load_block(memory, walk, count, block, params.rounded, buffer);
            typename Rule::Range range;
            for (int i = 0; i < kGroup; ++i) range.see(to_float(values[i]), i);
            largest = std::max(largest, Rule::image_scale_of(range));
          }
          // Scales are not negative: their bits are in their order, whatever the order of tasks.
          const std::atomic_ref<std::uint32_t> scale(*reinterpret_cast<std::uint32_t*>(
              out.data + image * out.stride + shape.image_offset));
          std::uint32_t seen = scale.load();
          while (seen < bits_of(largest) && !scale.compare_exchange_weak(seen, bits_of(largest))) {
          }
        });
  }

  static Stored load_stored(const std::byte* image, const WireShape& shape, std::size_t index) {
    Stored stored;
    std::memcpy(&stored, image + shape.scale_offset + index * sizeof(stored), sizeof(stored));
    return stored;
  }

  /// Block `index` of the image at `image`; the last one writes the image's padding as well.
  /// number(wire): of the group that begins there.
  template <class Memory, class Number>
  static void encode_block(const Rule& rule, const Memory* memory, const Params& params,
                           std::size_t index, const WireShape& shape, std::byte* image,
                           const Number& number) {
    const std::size_t block = params.block;
    float values[kLargestBlock / kGroup][kGroup];
    typename Rule::Range range;
    const std::size_t groups = block / kGroup;
    for (std::size_t group = 0; group < groups; ++group) {
      for (int i = 0; i < kGroup; ++i) {
        values[group][i] = to_float(memory[group * kGroup + static_cast<unsigned>(i)]);
      }
      Transform::apply(values[group]);
      for (int i = 0; i < kGroup; ++i) range.see(values[group][i], i);
    }
    const Stored stored = rule.stored(range);
    const auto factors = rule.encoding(stored);
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t first = index * block + group * kGroup;
      std::uint32_t codes[kGroup];
      encode_group(rule, values[group], factors, params.draw.key, number(first), codes);
      GroupCodes(rule.numbers.bits, shape.blocks * block, first).store(codes, image);
    }
    std::memcpy(image + shape.scale_offset + index * sizeof(stored), &stored, sizeof(stored));
    if (index + 1 == shape.blocks) zero_padding(shape, image);
  }
};

}  // namespace zeropp::codec

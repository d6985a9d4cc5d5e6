// Host kernels of cast formats.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/codec/host_kernels.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// Copies bits where nothing is to be converted.
template <class From, class To>
void cast_values(const From* from, std::size_t count, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    if (count > 0) std::memcpy(to, from, count * sizeof(To));
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = saturating_cast<To>(to_float(from[i]));
  }
}

template <CastFormat Format>
struct HostKernels<Format> {
  using Wire = typename Format::Wire;

  template <class Memory>
  static void encode(const Params& params, const Memory* memory, const Layout& layout,
                     WireImages out) {
    const std::size_t n = layout.wire_elements();
    const WireShape shape = wire_shape(n, 1, Format::bits, 0);
    const std::size_t tiles = (n + kHostTile - 1) / kHostTile;
    host_for("encode", layout.images * tiles, [=](std::size_t task) {
      const std::size_t image = task / tiles;
      const std::size_t first = (task - image * tiles) * kHostTile;
      const std::size_t last = std::min(first + kHostTile, n);
      std::byte* const data = out.data + image * out.stride;
      WireWalk(layout, image, first)
          .next(last - first,
                [&](std::size_t offset, std::size_t wire, std::size_t valid, std::size_t zeros) {
                  Wire* const target = reinterpret_cast<Wire*>(data) + wire;
                  Memory buffer[kHostTile];
                  cast_values(rounded_values(params.rounded, memory + offset, valid, buffer), valid,
                              target);
                  std::fill_n(target + valid, zeros, Wire{});
                });
      if (last == n) zero_padding(shape, data);
    });
  }

  template <class Memory, bool kOnto>
  static void decode(const Params&, ConstWireImages in, const Layout& layout, Memory* memory) {
    const std::size_t n = layout.wire_elements();
    const std::size_t tiles = (n + kHostTile - 1) / kHostTile;
    host_for("decode", layout.images * tiles, [=](std::size_t task) {
      const std::size_t image = task / tiles;
      const std::size_t first = (task - image * tiles) * kHostTile;
      const auto* const source = reinterpret_cast<const Wire*>(in.data + image * in.stride);
      WireWalk(layout, image, first)
          .next(std::min(kHostTile, n - first),
                [&](std::size_t offset, std::size_t wire, std::size_t valid, std::size_t) {
                  if constexpr (kOnto) {
                    for (std::size_t i = 0; i < valid; ++i) {
                      put<true>(to_float(source[wire + i]), memory[offset + i]);
                    }
                  } else {
                    cast_values(source + wire, valid, memory + offset);
                  }
                });
    });
  }

  /// sum = (from_zero ? 0 : sum) + the first n values of `images` images.
  static void accumulate(const Params&, ConstWireImages in, std::size_t images,
                         std::size_t /*wire_elements*/, std::size_t n, bool from_zero, float* sum) {
    constexpr std::size_t tile = 256;  // of sums that stay in the nearest cache over all images
    host_for("accumulate", (n + tile - 1) / tile, [=](std::size_t index) {
      const std::size_t first = index * tile;
      const std::size_t count = std::min(tile, n - first);
      float partial[tile] = {};
      if (!from_zero) std::memcpy(partial, sum + first, count * sizeof(float));
      for (std::size_t image = 0; image < images; ++image) {
        const auto* const values =
            reinterpret_cast<const Wire*>(in.data + image * in.stride) + first;
        for (std::size_t i = 0; i < count; ++i) partial[i] = add(partial[i], to_float(values[i]));
      }
      for (std::size_t i = 0; i < count; ++i) sum[first + i] = saturating_cast<float>(partial[i]);
    });
  }
};

}  // namespace zeropp::codec

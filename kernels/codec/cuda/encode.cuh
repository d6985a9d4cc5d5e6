// Memory -> wire images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/encode_tile.cuh"
#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/cuda/tile.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace zeropp::codec::cuda {

template <ScaledFormat Format, class Memory, int kBlock>
__global__ void __launch_bounds__(kThreads)
    encode_blocks(const Memory* memory, const __grid_constant__ DeviceLayout layout,
                  const __grid_constant__ WireShape shape, WireImages out) {
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  Vector<Memory> vectors[kRows<kWidth>];
  cursor.load_rows(memory, vectors);
  std::uint32_t largest[kRows<kWidth>];
#pragma unroll
  for (int row = 0; row < kRows<kWidth>; ++row) largest[row] = largest_magnitude(vectors[row]);
  encode_tile<Format, kBlock, kWidth>(
      largest,
      [&](int row, float reciprocal, float(&values)[kWidth]) {
        widen(vectors[row], values);
        return reciprocal;
      },
      tile.first, shape, out.data + tile.image * out.stride);
}

template <CastFormat Format, class Memory>
__global__ void __launch_bounds__(kThreads)
    encode_values(const Memory* memory, const __grid_constant__ DeviceLayout layout,
                  const __grid_constant__ WireShape shape, WireImages out) {
  using Wire = typename Format::Wire;
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  Vector<Memory> vectors[kRows<kWidth>];
  cursor.load_rows(memory, vectors);
  std::byte* const image = out.data + tile.image * out.stride;
#pragma unroll
  for (int row = 0; row < kRows<kWidth>; ++row) {
    const std::size_t at = (tile.first + place_of<kWidth>(row)) * sizeof(Wire);
    if (at >= shape.bytes) break;
    const Vector<Wire> values = cast<Wire>(vectors[row]);
    // The image ends on 16 bytes, which may be in the middle of the vector; its padding is what
    // the vector has beyond the last value.
    if (at + sizeof(values.words) <= shape.bytes) {
      store_words(values.words, image + at);
    } else {
      const std::uint32_t half[4] = {values.words[0], values.words[1], values.words[2],
                                     values.words[3]};
      store_words(half, image + at);
    }
  }
}

template <class Format, class Memory>
void encode(const Params& params, const Memory* memory, const Layout& layout, WireImages out,
            StreamHandle stream) {
  const std::size_t n = layout.wire_elements();
  const WireShape shape = ImageShape::of<Format>(n, params.block).wire;
  const Tiles tiles = tiles_of(layout.images, n);
  if (tiles.empty()) return;
  const DeviceLayout device_layout = DeviceLayout::of(layout, memory);
  if constexpr (ScaledFormat<Format>) {
    with_block<Format>(params.block, [&](auto block) {
      encode_blocks<Format, Memory, decltype(block)::value>
          <<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(memory, device_layout,
                                                                           shape, out);
    });
  } else {
    encode_values<Format, Memory><<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
        memory, device_layout, shape, out);
  }
  zeropp::cuda::check_launch();
}

}  // namespace zeropp::codec::cuda

// Wire images -> memory, and their sums in fp32.
#pragma once

#include <cstddef>

#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/cuda/tile.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace zeropp::codec::cuda {

template <class Format, class Memory>
__global__ void __launch_bounds__(kThreads)
    decode_images(ConstWireImages in, const __grid_constant__ ImageShape shape,
                  const __grid_constant__ DeviceLayout layout, Memory* memory) {
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  const std::byte* const image = in.data + tile.image * in.stride;
  Encoded<Format, kWidth> encoded[kRows<kWidth>];
  if (cursor.whole()) {
#pragma unroll
    for (int row = 0; row < kRows<kWidth>; ++row) {
      encoded[row].load(image, shape, tile.first, place_of<kWidth>(row));
    }
#pragma unroll
    for (int row = 0; row < kRows<kWidth>; ++row) {
      cursor.store(encoded[row].template decode<Memory>(), memory, place_of<kWidth>(row));
    }
    return;
  }
#pragma unroll
  for (int row = 0; row < kRows<kWidth>; ++row) {
    // Beyond the image the tile's first vector stands in: loads without branches are in flight
    // together.
    const unsigned ahead = place_of<kWidth>(row);
    encoded[row].load(image, shape, tile.first + (cursor.inside(ahead) ? ahead : 0));
  }
#pragma unroll
  for (int row = 0; row < kRows<kWidth>; ++row) {
    const unsigned ahead = place_of<kWidth>(row);
    if (cursor.inside(ahead)) {
      cursor.store(encoded[row].template decode<Memory>(), memory, ahead);
    }
  }
}

/// sum = (kFromZero ? 0 : sum) + the values of `images` images. One vector a thread: the images
/// give the loads in flight.
template <class Format, bool kFromZero>
__global__ void __launch_bounds__(kThreads)
    sum_images(ConstWireImages in, std::size_t images, const __grid_constant__ ImageShape shape,
               const __grid_constant__ DeviceLayout layout, float* sum) {
  const Cursor cursor(layout, 0, static_cast<std::size_t>(blockIdx.x) * (kThreads * kWidth));
  const unsigned ahead = threadIdx.x * kWidth;
  if (!cursor.inside(ahead)) return;
  float values[kWidth] = {};
  if constexpr (!kFromZero) widen(cursor.load(sum, ahead), values);
  accumulate_images<Format, kWidth>(
      in, images, shape, static_cast<std::size_t>(blockIdx.x) * (kThreads * kWidth) + ahead,
      values);
  cursor.store(narrow<float>(values), sum, ahead);
}

template <class Format, class Memory>
void decode(const Params& params, ConstWireImages in, const Layout& layout, Memory* memory,
            StreamHandle stream) {
  const std::size_t n = layout.wire_elements();
  const Tiles tiles = tiles_of(layout.images, n);
  if (tiles.empty()) return;
  decode_images<Format, Memory><<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
      in, ImageShape::of<Format>(n, params.block), DeviceLayout::of(layout, memory), memory);
  zeropp::cuda::check_launch();
}

/// The first n values of images of `wire_elements` values.
template <class Format, bool kFromZero>
void accumulate(const Params& params, ConstWireImages in, std::size_t images,
                std::size_t wire_elements, std::size_t n, float* sum, StreamHandle stream) {
  if (n == 0) return;
  const std::size_t grid = (n + kThreads * kWidth - 1) / (kThreads * kWidth);
  sum_images<Format, kFromZero>
      <<<static_cast<unsigned>(grid), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
          in, images, ImageShape::of<Format>(wire_elements, params.block),
          DeviceLayout::of(Layout::contiguous(n), sum), sum);
  zeropp::cuda::check_launch();
}

}  // namespace zeropp::codec::cuda

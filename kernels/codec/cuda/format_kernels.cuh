// The CUDA kernels of a format that has kernels of its own: memory -> wire images and back, and
// their sums in fp32. rule_kernels.cuh has those that formats share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/cuda_tables.cuh"
#include "kernels/codec/cuda/encode_tile.cuh"
#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/cuda/tile.cuh"
#include "kernels/codec/format.hpp"
#include "kernels/core/cuda/launch.cuh"

namespace zeropp::codec {

namespace cuda {

template <ScaledFormat Format, class Memory, int kBlock>
__global__ void __launch_bounds__(kThreads)
    encode_blocks(const Memory* memory, Dtype rounded, const __grid_constant__ DeviceLayout layout,
                  const __grid_constant__ WireShape shape, WireImages out) {
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  Vector<Memory> vectors[kRows<kWidth>];
  cursor.load_rows(memory, rounded, vectors);
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
    encode_values(const Memory* memory, Dtype rounded, const __grid_constant__ DeviceLayout layout,
                  const __grid_constant__ WireShape shape, WireImages out) {
  using Wire = typename Format::Wire;
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  Vector<Memory> vectors[kRows<kWidth>];
  cursor.load_rows(memory, rounded, vectors);
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

/// An encoded vector goes to memory, or onto what is there.
template <bool kOnto, class Format, class Memory>
__device__ __forceinline__ void put_decoded(const Encoded<Format, kWidth>& encoded,
                                            const Cursor& cursor, Memory* memory, unsigned ahead) {
  if constexpr (kOnto) {
    float values[kWidth];
    widen(encoded.template decode<float>(), values);
    cursor.store(with_differences(cursor.load(memory, ahead), values), memory, ahead);
  } else {
    cursor.store(encoded.template decode<Memory>(), memory, ahead);
  }
}

template <class Format, class Memory, bool kOnto>
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
      put_decoded<kOnto>(encoded[row], cursor, memory, place_of<kWidth>(row));
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
      put_decoded<kOnto>(encoded[row], cursor, memory, ahead);
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

template <class Format>
struct FormatLaunchers {
  template <class Memory>
  static void encode(const Params& params, const Memory* memory, const Layout& layout,
                     WireImages out, StreamHandle stream) {
    const std::size_t n = layout.wire_elements();
    const WireShape shape = ImageShape::of<Format>(n, params.block).wire;
    const Tiles tiles = tiles_of(layout.images, n);
    if (tiles.empty()) return;
    const DeviceLayout device_layout = DeviceLayout::of(layout, memory);
    if constexpr (ScaledFormat<Format>) {
      with_block<Format>(params.block, [&](auto block) {
        encode_blocks<Format, Memory, decltype(block)::value>
            <<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
                memory, params.rounded, device_layout, shape, out);
      });
    } else {
      encode_values<Format, Memory><<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
          memory, params.rounded, device_layout, shape, out);
    }
    zeropp::cuda::check_launch();
  }

  template <class Memory, bool kOnto>
  static void decode(const Params& params, ConstWireImages in, const Layout& layout, Memory* memory,
                     StreamHandle stream) {
    const std::size_t n = layout.wire_elements();
    const Tiles tiles = tiles_of(layout.images, n);
    if (tiles.empty()) return;
    const auto on = zeropp::cuda::stream_of(stream);
    decode_images<Format, Memory, kOnto><<<tiles.grid(), kThreads, 0, on>>>(
        in, ImageShape::of<Format>(n, params.block), DeviceLayout::of(layout, memory), memory);
    zeropp::cuda::check_launch();
  }

  /// The first n values of images of `wire_elements` values.
  template <bool kFromZero>
  static void accumulate(const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, float* sum,
                         StreamHandle stream) {
    if (n == 0) return;
    const std::size_t grid = (n + kThreads * kWidth - 1) / (kThreads * kWidth);
    sum_images<Format, kFromZero>
        <<<static_cast<unsigned>(grid), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
            in, images, ImageShape::of<Format>(wire_elements, params.block),
            DeviceLayout::of(Layout::contiguous(n), sum), sum);
    zeropp::cuda::check_launch();
  }
};

}  // namespace cuda

/// Null for a ruled format: the rule has the kernels.
template <class Format>
const CodecOps* cuda_format_ops() {
  if constexpr (RuledFormat<Format>) {
    return nullptr;
  } else {
    static const CodecOps ops = cuda::cuda_table<cuda::FormatLaunchers<Format>>();
    return &ops;
  }
}

}  // namespace zeropp::codec

// decode_reduce_encode in one pass: every thread sums chunks of 16 payload bytes over the images,
// in image order, and encodes the sums from its registers.
#include <cstddef>
#include <cstdint>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/cuda/encode_tile.cuh"
#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/cuda/tile.cuh"
#include "kernels/codec/fused.hpp"
#include "kernels/codec/fused_pairs.hpp"
#include "kernels/core/cuda/launch.cuh"

namespace zeropp::codec {
namespace cuda {
namespace {

/// The sum of one wire value, wherever it lies.
template <ScaledFormat Format>
__device__ float sum_of(const ConstWireImages& in, std::size_t images, const ImageShape& shape,
                        std::size_t at) {
  float sum = 0.0F;
  const std::byte* image = in.data;
  for (std::size_t i = 0; i < images; ++i, image += in.stride) {
    const std::size_t bit = at * Format::bits;
    Codes<Format, Codes<Format, 8>::kPerWord> codes;
    codes.words[0] = std::to_integer<std::uint32_t>(image[bit / 8]) >> (bit % 8);
    sum = Format::accumulate(codes.get(0), load_scale<Format>(image, shape, at), sum);
  }
  return sum;
}

/// Tiles are those of the slices, images of `To`: slice j begins at wire value j * padded of the
/// images of `From`.
template <ScaledFormat From, ScaledFormat To, int kBlock, int kChunk>
__global__ void __launch_bounds__(kThreads)
    reduce_encode(ConstWireImages in, std::size_t images, const __grid_constant__ ImageShape from,
                  Tiles tiles, std::size_t padded, const __grid_constant__ WireShape shape,
                  WireImages out) {
  const Tile tile(tiles);
  const std::size_t begin = tile.image * padded;
  float sums[kRows<kChunk>][kChunk] = {};
  std::uint32_t largest[kRows<kChunk>];
#pragma unroll
  for (int row = 0; row < kRows<kChunk>; ++row) {
    const std::size_t at = tile.first + place_of<kChunk>(row);
    if (begin % kChunk == 0 && at + kChunk <= padded) {
      accumulate_images<From, kChunk>(in, images, from, begin + at, sums[row]);
    } else {
#pragma unroll 1
      for (int i = kChunk - 1; i >= 0; --i) {
        const std::size_t value = at + static_cast<unsigned>(i);
#pragma unroll
        for (int k = kChunk - 1; k > 0; --k) sums[row][k] = sums[row][k - 1];
        sums[row][0] = value < padded ? sum_of<From>(in, images, from, begin + value) : 0.0F;
      }
    }
    float most = 0.0F;
#pragma unroll
    for (const float sum : sums[row]) most = larger_magnitude(most, sum);
    largest[row] = bits_of(most);
  }
  encode_tile<To, kBlock, kChunk>(
      largest,
      [&](int row, float(&values)[kChunk]) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) values[i] = sums[row][i];
      },
      tile.first, shape, out.data + tile.image * out.stride);
}

template <class From, class To>
struct CudaReduceEncode {
  static void run(const Params& from, const Params& to, ConstWireImages in, std::size_t images,
                  std::size_t slices, std::size_t padded, WireImages out, StreamHandle stream) {
    constexpr int kChunk = 128 / From::bits;
    check_images(in, images);
    check_images(out, slices);
    const Tiles tiles = tiles_of(slices, padded);
    if (tiles.total == 0) return;
    const ImageShape from_shape = ImageShape::of<From>(slices * padded, from.block);
    const WireShape shape = ImageShape::of<To>(padded, to.block).wire;
    with_block<To>(to.block, [&](auto block) {
      reduce_encode<From, To, decltype(block)::value, kChunk>
          <<<tiles.total, kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
              in, images, from_shape, tiles, padded, shape, out);
    });
    zeropp::cuda::check_launch();
  }
};

}  // namespace
}  // namespace cuda

ReduceEncode::Fused find_fused_cuda(std::string_view from, std::string_view to) {
  return find_pair<cuda::CudaReduceEncode>(from, to);
}

}  // namespace zeropp::codec

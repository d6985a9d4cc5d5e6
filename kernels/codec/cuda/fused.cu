// decode_reduce_encode in one pass: every thread sums chunks of 16 payload bytes over the images,
// in image order, and encodes the sums from its registers.
#include <cstddef>
#include <cstdint>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/cuda/encode_tile.cuh"
#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/cuda/integer_sum.cuh"
#include "kernels/codec/cuda/tile.cuh"
#include "kernels/codec/fused.hpp"
#include "kernels/codec/fused_pairs.hpp"
#include "kernels/core/cuda/launch.cuh"

namespace zeropp::codec {
namespace cuda {
namespace {

/// The sums of the wire values `first` to `end`, zeros beyond, wherever they lie. A call: one copy
/// of what is seldom needed, and no registers of the kernel's.
template <ScaledFormat Format, int kChunk>
__device__ __noinline__ void sum_values(ConstWireImages in, unsigned images,
                                        const ImageShape& shape, std::size_t first, std::size_t end,
                                        float* sums) {
  for (int k = 0; k < kChunk; ++k, ++first) {
    float sum = 0.0F;
    const std::byte* image = in.data;
    for (unsigned i = first < end ? images : 0; i > 0; --i, image += in.stride) {
      const std::size_t bit = first * Format::bits;
      Codes<Format, Codes<Format, 8>::kPerWord> codes;
      codes.words[0] = std::to_integer<std::uint32_t>(image[bit / 8]) >> (bit % 8);
      sum = Format::accumulate(codes.get(0), load_scale<Format>(image, shape, first), sum);
    }
    sums[k] = sum;
  }
}

/// The same where all values of the chunk are there.
template <ScaledFormat Format, int kChunk>
__device__ __noinline__ void sum_chunk(ConstWireImages in, unsigned images, const ImageShape& shape,
                                       std::size_t first, float* sums) {
  float values[kChunk] = {};
  accumulate_images<Format, kChunk>(in, images, shape, first, values);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) sums[i] = values[i];
}

/// The largest magnitude, NaN where a value is NaN, by short chains.
template <int kCount>
__device__ __forceinline__ float largest_of(const float (&values)[kCount]) {
  constexpr int kChains = 4;
  float largest[kChains] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    largest[i % kChains] = larger_magnitude(largest[i % kChains], values[i]);
  }
  return larger_magnitude(larger_magnitude(largest[0], largest[1]),
                          larger_magnitude(largest[2], largest[3]));
}

/// Thread blocks of reduce_encode on one multiprocessor: as many as leave the registers for the
/// words of all images whose loads are in flight, beside the sums and, of 8 bits, those of the
/// other row.
template <ScaledFormat From>
inline constexpr int kResident = From::bits == 8 ? 3 : 4;

/// Tiles are those of the slices, images of `To`: slice j begins at wire value j * padded of the
/// images of `From`.
template <ScaledFormat From, ScaledFormat To, int kBlock, int kChunk>
__global__ void __launch_bounds__(kThreads, kResident<From>)
    reduce_encode(ConstWireImages in, unsigned images, const __grid_constant__ IntegerRange range,
                  const __grid_constant__ ImageShape from, std::size_t padded,
                  const __grid_constant__ WireShape shape, WireImages out) {
  const Tile tile;
  const std::size_t begin = tile.image * padded;
  float sums[kRows<kChunk>][kChunk];  // each row in its own power of two
  float units[kRows<kChunk>];
  std::uint32_t largest[kRows<kChunk>];
#pragma unroll
  for (int row = 0; row < kRows<kChunk>; ++row) {
    const std::size_t at = tile.first + place_of<kChunk>(row);
    const bool whole = begin % kChunk == 0 && at + kChunk <= padded;
    bool summed = false;
    if constexpr (InIntegerSums<From>) {
      summed = whole &&
               sum_in_integers<From>(in, images, from, range, begin + at, sums[row], units[row]);
    }
    if (!summed) {
      float values[kChunk];
      if (whole) {
        sum_chunk<From, kChunk>(in, images, from, begin + at, values);
      } else {
        sum_values<From, kChunk>(in, images, from, begin + at, begin + padded, values);
      }
      units[row] = 1.0F;
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sums[row][i] = values[i];
    }
    const float most = largest_of(sums[row]);
    largest[row] = bits_of(multiply(most, units[row]));
    // Of zeros the unit says nothing, and times a reciprocal it might be infinite.
    if (most == 0.0F) units[row] = 0.0F;
  }
  encode_tile<To, kBlock, kChunk>(
      largest,
      [&](int row, float reciprocal, float(&values)[kChunk]) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) values[i] = sums[row][i];
        return multiply(units[row], reciprocal);
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
    if (tiles.empty()) return;
    const ImageShape from_shape = ImageShape::of<From>(slices * padded, from.block);
    const WireShape shape = ImageShape::of<To>(padded, to.block).wire;
    with_block<To>(to.block, [&](auto block) {
      reduce_encode<From, To, decltype(block)::value, kChunk>
          <<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
              in, static_cast<unsigned>(images), IntegerRange::of(images, From::bits), from_shape,
              padded, shape, out);
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

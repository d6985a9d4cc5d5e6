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

/// Images whose values are summed. `range`: scales for which the sum is made in integers, in
/// formats that have such sums.
struct Summands {
  ConstWireImages in;
  unsigned images;
  IntegerRange range;
  ImageShape shape;
};

/// The sum of one wire value, wherever it lies.
template <ScaledFormat Format>
__device__ float sum_of(const Summands& from, std::size_t at) {
  float sum = 0.0F;
  const std::byte* image = from.in.data;
  for (unsigned i = from.images; i > 0; --i, image += from.in.stride) {
    const std::size_t bit = at * Format::bits;
    Codes<Format, Codes<Format, 8>::kPerWord> codes;
    codes.words[0] = std::to_integer<std::uint32_t>(image[bit / 8]) >> (bit % 8);
    sum = Format::accumulate(codes.get(0), load_scale<Format>(image, from.shape, at), sum);
  }
  return sum;
}

/// Sums over the images of the wire values from `first` on, wherever they lie; zeros from `end` on.
template <ScaledFormat Format, int kChunk>
__device__ __forceinline__ void sum_values(const Summands& from, std::size_t first, std::size_t end,
                                           float (&sums)[kChunk]) {
#pragma unroll 1
  for (int k = kChunk - 1; k >= 0; --k) {
    const std::size_t at = first + static_cast<unsigned>(k);
    // Registers have no index: the values move up.
#pragma unroll
    for (int i = kChunk - 1; i > 0; --i) sums[i] = sums[i - 1];
    sums[0] = at < end ? sum_of<Format>(from, at) : 0.0F;
  }
}

/// Sums over the images of a chunk's wire values, in fp32, zeros from `end` on; `whole`: the chunk
/// lies before `end` and begins on 16 bytes.
template <ScaledFormat Format, int kChunk>
__device__ __forceinline__ void sum_in_fp32(const Summands& from, std::size_t first,
                                            std::size_t end, bool whole, float (&sums)[kChunk]) {
#pragma unroll
  for (float& sum : sums) sum = 0.0F;
  if (whole) {
    accumulate_images<Format, kChunk>(from.in, from.images, from.shape, first, sums);
  } else {
    sum_values<Format>(from, first, end, sums);
  }
}

/// Returned by value: an array passed by pointer would lie in memory on every path to its use.
template <int kChunk>
struct Sums {
  float values[kChunk];
};

/// Calls sum_in_fp32() for what is seldom needed: a call takes no registers of the kernel's.
template <ScaledFormat Format, int kChunk>
__device__ __noinline__ Sums<kChunk> call_sum_in_fp32(const Summands& from, std::size_t first,
                                                      std::size_t end, bool whole) {
  Sums<kChunk> sums;
  sum_in_fp32<Format>(from, first, end, whole, sums.values);
  return sums;
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

/// The sums of a chunk over the images, in fp32. With 8-bit codes these sums keep up with the
/// memory; sums in integers would spill registers (measurements: integer_sum.cuh).
template <ScaledFormat Format, int kChunk>
struct ChunkSums {
  /// Thread blocks on one multiprocessor: as many as leave the registers for the words of all
  /// images whose loads are in flight, beside the sums of this row and of the other.
  static constexpr int kResident = 3;
  float values[kChunk];

  /// Parameters as of sum_in_fp32.
  __device__ __forceinline__ void make(const Summands& from, std::size_t first, std::size_t end,
                                       bool whole) {
    sum_in_fp32<Format>(from, first, end, whole, values);
  }
  /// The largest magnitude, as bits.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t largest() const {
    return bits_of(largest_of(values));
  }
  /// The factor to encode `values` with, of the reciprocal of their block's scale.
  [[nodiscard]] __device__ __forceinline__ float factor(float reciprocal) const {
    return reciprocal;
  }
};

/// Sums of a chunk of 4-bit codes over the images: in integers, but for scales out of the range.
/// They are values[i] * unit, a power of two.
template <InIntegerSums Format, int kChunk>
struct ChunkSums<Format, kChunk> {
  static constexpr int kResident = 4;  // there is one row
  float values[kChunk];
  float unit;

  __device__ __forceinline__ void make(const Summands& from, std::size_t first, std::size_t end,
                                       bool whole) {
    if (whole && sum_in_integers<Format>(from.in, from.images, from.shape, from.range, first,
                                         values, unit)) {
      return;
    }
    const auto sums = call_sum_in_fp32<Format, kChunk>(from, first, end, whole);
    unit = 1.0F;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = sums.values[i];
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t largest() {
    const float most = largest_of(values);
    const std::uint32_t bits = bits_of(multiply(most, unit));
    // The unit says nothing of zeros, and times a reciprocal it might be infinite.
    if (most == 0.0F) unit = 0.0F;
    return bits;
  }
  [[nodiscard]] __device__ __forceinline__ float factor(float reciprocal) const {
    return multiply(unit, reciprocal);
  }
};

/// Tiles are those of the slices, images of `To`: slice j begins at wire value j * padded of the
/// images of `From`.
template <ScaledFormat From, ScaledFormat To, int kBlock, int kChunk>
__global__ void __launch_bounds__(kThreads, (ChunkSums<From, kChunk>::kResident))
    reduce_encode(const __grid_constant__ Summands from, std::size_t padded,
                  const __grid_constant__ WireShape shape, WireImages out) {
  const Tile tile;
  const std::size_t begin = tile.image * padded;
  ChunkSums<From, kChunk> sums[kRows<kChunk>];
  std::uint32_t largest[kRows<kChunk>];
#pragma unroll
  for (int row = 0; row < kRows<kChunk>; ++row) {
    const std::size_t at = tile.first + place_of<kChunk>(row);
    const bool whole = begin % kChunk == 0 && at + kChunk <= padded;
    sums[row].make(from, begin + at, begin + padded, whole);
    largest[row] = sums[row].largest();
  }
  encode_tile<To, kBlock, kChunk>(
      largest,
      [&](int row, float reciprocal, float(&values)[kChunk]) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) values[i] = sums[row].values[i];
        return sums[row].factor(reciprocal);
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
    const Summands summands{in, static_cast<unsigned>(images), IntegerRange::of(images),
                            ImageShape::of<From>(slices * padded, from.block)};
    const WireShape shape = ImageShape::of<To>(padded, to.block).wire;
    with_block<To>(to.block, [&](auto block) {
      reduce_encode<From, To, decltype(block)::value, kChunk>
          <<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(summands, padded, shape,
                                                                           out);
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

// The image of new weights that are in the registers of the threads that updated them, a chunk of
// moments in 8 bits: the arithmetic of the codec, by its own functions (kernels/codec). A block of
// the codec lies inside a warp, whose lanes find its largest magnitude with shuffles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/vector.cuh"
#include "kernels/optim/cuda/image_block.cuh"
#include "kernels/optim/cuda/int8_moments.cuh"
#include "kernels/optim/update_image.hpp"

namespace zeropp::optim::cuda_ops {

/// Writes codes and scales of whole chunks of a tile: what follows the weights.
struct WeightsInImage {
  const ImageTile& tile;
  const ImageFormat& format;

  /// Whether a warp has whole blocks of the codec in a chunk, and every thread elements of one
  /// block only: blocks of 64, 128 and 256.
  __device__ static bool takes(const ImageFormat& format) {
    return format.block >= kInt8Row && format.block <= 32 * 4 * kInt8Turns;
  }

  /// All threads of the warp call it.
  template <bool Whole>
  __device__ void store(const ChunkPlace& place, const ChunkValues& w) const {
    static_assert(Whole);
    if (format.bits == 8) {
      encode<codec::format::int8::Format>(place, w);
    } else {
      encode<codec::format::int4::Format>(place, w);
    }
  }

 private:
  template <codec::ScaledFormat Format>
  __device__ __forceinline__ void encode(const ChunkPlace& place, const ChunkValues& w) const {
    using codec::cuda::kWidth;
    static_assert(kWidth == 4 * kInt8Turns);
    codec::cuda::Vector<float> vector;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) vector.words[i] = bits_of(w[i / 4][i % 4]);
    codec::cuda::round_vector(format.rounded, vector);
    std::uint32_t largest = codec::cuda::largest_magnitude(vector);
    const unsigned lanes = format.block / kWidth;
    for (unsigned half = lanes / 2; half > 0; half /= 2) {
      largest = max(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, half));
    }
    float rounded[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) rounded[i] = float_of(vector.words[i]);
    const auto codes = encode_image_block<Format>(
        rounded, largest, tile, place.first / format.block, threadIdx.x % lanes == 0);
    std::byte* const to = global(tile.codes);
    if constexpr (Format::bits == 8) {
#pragma unroll
      for (unsigned turn = 0; turn < kInt8Turns; ++turn) {
        *reinterpret_cast<std::uint32_t*>(to + place.at(turn)) = codes.words[turn];
      }
    } else {
      static_assert(Format::bits == 4 && kInt8Turns == 2);
      const auto half = [&](unsigned turn) {
        return reinterpret_cast<std::uint16_t*>(to + place.at(turn) / 2);
      };
      *half(0) = static_cast<std::uint16_t>(codes.words[0]);
      *half(1) = static_cast<std::uint16_t>(codes.words[0] >> 16U);
    }
  }
};

}  // namespace zeropp::optim::cuda_ops

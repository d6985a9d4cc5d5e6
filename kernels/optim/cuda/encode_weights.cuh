// The image of a tile of new weights, which lie in shared memory: the arithmetic of the codec, by
// its own functions (kernels/codec). A thread has 16 values in a row, so that a block of up to 512
// lies inside a warp, whose lanes find its largest magnitude with shuffles; larger ones join their
// warps through shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/vector.cuh"
#include "kernels/optim/cuda/image_block.cuh"
#include "kernels/optim/cuda/update_block.cuh"
#include "kernels/optim/update_image.hpp"

namespace zeropp::optim::cuda_ops {

inline constexpr unsigned kEncodedValues = kImageTile / kUpdateThreads;  ///< of a thread
inline constexpr unsigned kWarpValues = 32 * kEncodedValues;

static_assert(kEncodedValues == 2 * codec::cuda::kWidth);
static_assert(kImageBlocks[0] >= kEncodedValues && kImageTile % kImageBlocks[1] == 0);

/// The largest magnitude (as bits) in the block that the thread's values are of; `largest`: theirs.
/// All threads of the thread block call it.
__device__ inline std::uint32_t largest_of_block(std::uint32_t largest, unsigned block) {
  const unsigned lanes = min(block, kWarpValues) / kEncodedValues;
  for (unsigned half = lanes / 2; half > 0; half /= 2) {
    largest = max(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, half));
  }
  if (block <= kWarpValues) return largest;
  __shared__ std::uint32_t of_warp[kUpdateThreads / 32];
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) of_warp[warp] = largest;
  __syncthreads();
  const unsigned warps = block / kWarpValues;
  const unsigned first = warp / warps * warps;
  for (unsigned i = 0; i < warps; ++i) largest = max(largest, of_warp[first + i]);
  return largest;
}

/// Writes codes and scales of a tile whose weights are `values`, zeros beyond them.
template <codec::ScaledFormat Format>
__device__ __forceinline__ void encode_weights(const float* values, const ImageTile& tile,
                                               const ImageFormat& format) {
  using codec::cuda::kWidth;
  using codec::cuda::Vector;
  const unsigned first = threadIdx.x * kEncodedValues;
  Vector<float> vectors[2];
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    codec::cuda::load_words(values + first + i * kWidth, vectors[i].words);
    codec::cuda::round_vector(format.rounded, vectors[i]);
    largest = max(largest, codec::cuda::largest_magnitude(vectors[i]));
  }
  largest = largest_of_block(largest, format.block);
  const unsigned begin = first / format.block * format.block;  // of the block
  if (begin >= tile.values) return;
  float rounded[kEncodedValues];
#pragma unroll
  for (unsigned i = 0; i < kEncodedValues; ++i) {
    rounded[i] = float_of(vectors[i / kWidth].words[i % kWidth]);
  }
  const auto codes =
      encode_image_block<Format>(rounded, largest, tile, begin / format.block, first == begin);
  codec::cuda::store_words(codes.words, global(tile.codes) + first * Format::bits / 8);
  pad_image(tile, format);
}

}  // namespace zeropp::optim::cuda_ops

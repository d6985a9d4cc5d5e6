// A tile of fp32 values -> payload and scales, the values being in the registers of the thread
// block's threads already: memory is read once. Blocks of up to 1024 values lie inside a warp and
// find their largest magnitude with shuffles; larger ones join their warps through shared memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/cuda/tile.cuh"

namespace zeropp::codec::cuda {

/// How the chunks of a tile share blocks of kBlock values.
template <int kBlock, int kChunk>
struct Sharing {
  static_assert(kBlock % kChunk == 0 && kBlock <= kTile);
  static constexpr int kRow = kWarp * kChunk;  ///< values of a row of a warp
  static constexpr int kLanes = std::min(kWarp, kBlock / kChunk);
  static constexpr int kRowsPerBlock = std::clamp(kBlock / kRow, 1, kRows<kChunk>);
  static constexpr int kBlocks = kRows<kChunk> / kRowsPerBlock;   ///< that a thread has chunks of
  static constexpr int kWarps = std::max(1, kBlock / kWarpTile);  ///< that share a block
};

/// Of the blocks that this thread has chunks of, the largest magnitude (as bits); `largest` holds
/// those of its chunks. All threads of the thread block call it.
template <int kBlock, int kChunk>
__device__ __forceinline__ void block_maxima(
    const std::uint32_t (&largest)[kRows<kChunk>],
    std::uint32_t (&maxima)[Sharing<kBlock, kChunk>::kBlocks]) {
  using S = Sharing<kBlock, kChunk>;
#pragma unroll
  for (int block = 0; block < S::kBlocks; ++block) {
    std::uint32_t most = largest[block * S::kRowsPerBlock];
#pragma unroll
    for (int row = 1; row < S::kRowsPerBlock; ++row) {
      most = max(most, largest[block * S::kRowsPerBlock + row]);
    }
    if constexpr (S::kLanes == kWarp) {
      most = __reduce_max_sync(0xFFFFFFFFU, most);
    } else {
#pragma unroll
      for (int distance = S::kLanes / 2; distance > 0; distance /= 2) {
        most = max(most, __shfl_xor_sync(0xFFFFFFFFU, most, distance));
      }
    }
    maxima[block] = most;
  }
  if constexpr (S::kWarps > 1) {
    static_assert(S::kBlocks == 1);
    __shared__ std::uint32_t of_warp[kThreads / kWarp];
    const unsigned warp = threadIdx.x / kWarp;
    if (threadIdx.x % kWarp == 0) of_warp[warp] = maxima[0];
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < S::kWarps; ++i) {
      maxima[0] = max(maxima[0], of_warp[warp / S::kWarps * S::kWarps + i]);
    }
  }
}

/// Of the blocks that this thread has chunks of, the factors of encode. Divisions are dear: the
/// lanes of a block share the work, one block a lane, and the lane stores the block's scale. All
/// threads of the thread block call it.
template <ScaledFormat Format, int kBlock, int kChunk>
__device__ __forceinline__ void scale_blocks(
    const std::uint32_t (&maxima)[Sharing<kBlock, kChunk>::kBlocks], std::size_t first,
    const WireShape& shape, std::byte* image,
    float (&reciprocals)[Sharing<kBlock, kChunk>::kBlocks]) {
  using S = Sharing<kBlock, kChunk>;
  using Scale = typename Format::Scale;
  constexpr int kShare = std::min(S::kBlocks, S::kLanes);  // lanes that take a block each
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned mine = lane % kShare;
#pragma unroll
  for (int round = 0; round < S::kBlocks; round += kShare) {
    std::uint32_t largest = maxima[round];
#pragma unroll
    for (int i = 1; i < kShare; ++i) largest = mine == i ? maxima[round + i] : largest;
    const Scale scale =
        is_finite_bits(largest) ? Format::scale_of(float_of(largest)) : Format::non_finite_scale();
    const float reciprocal = Format::reciprocal(scale);
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      reciprocals[round + i] =
          kShare == 1 ? reciprocal : __shfl_sync(0xFFFFFFFFU, reciprocal, i, kShare);
    }
    const unsigned place = warp * kWarpTile + (round + mine) * (S::kRowsPerBlock * S::kRow) +
                           lane / S::kLanes * kBlock;
    const std::size_t index = first / kBlock + place / kBlock;
    if (lane % S::kLanes < kShare && warp % S::kWarps == 0 && index < shape.blocks) {
      reinterpret_cast<Scale*>(image + shape.scale_offset)[index] = scale;
    }
  }
}

/// Zeros in the bytes of a wire image that carry nothing.
__device__ __forceinline__ void zero_padding(const WireShape& shape, std::byte* image) {
  for (std::size_t i = shape.payload_bytes; i < shape.scale_offset; ++i) image[i] = std::byte{0};
  for (std::size_t i = shape.scale_offset + shape.scale_bytes; i < shape.bytes; ++i) {
    image[i] = std::byte{0};
  }
}

/// Writes the tile that begins at value `first` of `image`. values(row, out) gives the chunk `row`
/// of this thread in fp32, `largest` its largest magnitudes. All threads of the thread block call
/// it.
template <ScaledFormat Format, int kBlock, int kChunk, class Values>
__device__ __forceinline__ void encode_tile(const std::uint32_t (&largest)[kRows<kChunk>],
                                            const Values& values, std::size_t first,
                                            const WireShape& shape, std::byte* image) {
  using S = Sharing<kBlock, kChunk>;
  std::uint32_t maxima[S::kBlocks];
  block_maxima<kBlock, kChunk>(largest, maxima);
  float reciprocals[S::kBlocks];
  scale_blocks<Format, kBlock, kChunk>(maxima, first, shape, image, reciprocals);

  const std::size_t end = shape.blocks * kBlock;
  const bool whole = first + kTile <= end;
  std::byte* const payload = image + first * Format::bits / 8;
#pragma unroll
  for (int row = 0; row < kRows<kChunk>; ++row) {
    const int block = row / S::kRowsPerBlock;
    const unsigned place = place_of<kChunk>(row);
    if (!whole && first + place >= end) break;
    float chunk[kChunk];
    values(row, chunk);
    Codes<Format, kChunk> codes = encode_codes<Format>(chunk, reciprocals[block]);
    const bool finite = is_finite_bits(maxima[block]);
#pragma unroll
    for (std::uint32_t& word : codes.words) word = finite ? word : 0U;
    store_words(codes.words, payload + place * Format::bits / 8);
  }
  if (threadIdx.x == 0 && first + kTile >= end) zero_padding(shape, image);
}

/// Calls body(std::integral_constant<int, block>) for the block size of a launch, a power of two
/// that Format takes: the one place where it becomes a compile-time value.
template <ScaledFormat Format, int kBlock = static_cast<int>(Format::minimum_block), class Body>
void with_block(std::size_t block, const Body& body) {
  if constexpr (kBlock < static_cast<int>(Format::maximum_block)) {
    if (block != kBlock) return with_block<Format, 2 * kBlock>(block, body);
  }
  body(std::integral_constant<int, kBlock>());
}

}  // namespace zeropp::codec::cuda

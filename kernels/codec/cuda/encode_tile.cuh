// A tile of fp32 values -> payload and scales, the values being in the registers of the thread
// block's threads already: memory is read once. Blocks of up to 1024 values lie inside a warp and
// find their largest magnitude with shuffles; larger ones join their warps through shared memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/cuda/tile.cuh"
#include "kernels/codec/cuda/wire_padding.cuh"

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

/// The largest magnitude (as bits) of one of the blocks that this thread has chunks of: the lanes
/// of those blocks share them, lane i taking block i modulo their number. `largest` holds the
/// magnitudes of the thread's chunks. All threads of the thread block call it.
template <int kBlock, int kChunk>
__device__ __forceinline__ std::uint32_t block_maximum(
    const std::uint32_t (&largest)[kRows<kChunk>]) {
  using S = Sharing<kBlock, kChunk>;
  static_assert(S::kBlocks <= S::kLanes, "a lane for every block");
  const unsigned lane = threadIdx.x % kWarp;
  std::uint32_t most[S::kBlocks];
#pragma unroll
  for (int block = 0; block < S::kBlocks; ++block) {
    most[block] = largest[block * S::kRowsPerBlock];
#pragma unroll
    for (int row = 1; row < S::kRowsPerBlock; ++row) {
      most[block] = max(most[block], largest[block * S::kRowsPerBlock + row]);
    }
  }
  // Two lanes part their blocks: each keeps a half and gives the other half away.
#pragma unroll
  for (int half = S::kBlocks / 2; half > 0; half /= 2) {
    const bool upper = (lane & static_cast<unsigned>(half)) != 0;
#pragma unroll
    for (int block = 0; block < half; ++block) {
      const std::uint32_t given = upper ? most[block] : most[block + half];
      const std::uint32_t kept = upper ? most[block + half] : most[block];
      most[block] = max(kept, __shfl_xor_sync(0xFFFFFFFFU, given, half));
    }
  }
  std::uint32_t maximum = most[0];
  if constexpr (S::kBlocks == 1 && S::kLanes == kWarp) {
    maximum = __reduce_max_sync(0xFFFFFFFFU, maximum);
  } else {
#pragma unroll
    for (int distance = S::kLanes / 2; distance >= S::kBlocks; distance /= 2) {
      maximum = max(maximum, __shfl_xor_sync(0xFFFFFFFFU, maximum, distance));
    }
  }
  if constexpr (S::kWarps > 1) {
    static_assert(S::kBlocks == 1);
    __shared__ std::uint32_t of_warp[kThreads / kWarp];
    const unsigned warp = threadIdx.x / kWarp;
    if (lane == 0) of_warp[warp] = maximum;
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < S::kWarps; ++i) {
      maximum = max(maximum, of_warp[warp / S::kWarps * S::kWarps + i]);
    }
  }
  return maximum;
}

/// Makes the factors of encode, `reciprocals`, of the blocks that this thread has chunks of, NaN
/// for a block that is not finite; `largest` is from block_maximum. Divisions are dear: every lane
/// has those of one block, and stores the block's scale. All threads of the thread block call it.
template <ScaledFormat Format, int kBlock, int kChunk>
__device__ __forceinline__ void scale_blocks(
    std::uint32_t largest, std::size_t first, const WireShape& shape, std::byte* image,
    float (&reciprocals)[Sharing<kBlock, kChunk>::kBlocks]) {
  using S = Sharing<kBlock, kChunk>;
  using Scale = typename Format::Scale;
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned mine = lane % S::kBlocks;
  Scale scale = Format::non_finite_scale();
  float reciprocal = float_of(kCanonicalNan32);
  if (is_finite_bits(largest)) {
    scale = Format::scale_of(float_of(largest));
    reciprocal = Format::reciprocal(scale);
  }
#pragma unroll
  for (int i = 0; i < S::kBlocks; ++i) {
    reciprocals[i] =
        S::kBlocks == 1 ? reciprocal : __shfl_sync(0xFFFFFFFFU, reciprocal, i, S::kBlocks);
  }
  const unsigned place =
      warp * kWarpTile + mine * (S::kRowsPerBlock * S::kRow) + lane / S::kLanes * kBlock;
  const std::size_t index = first / kBlock + place / kBlock;
  if (lane % S::kLanes < S::kBlocks && warp % S::kWarps == 0 && index < shape.blocks) {
    reinterpret_cast<Scale*>(image + shape.scale_offset)[index] = scale;
  }
}

/// Writes the tile that begins at value `first` of `image`. values(row, reciprocal, out) gives the
/// chunk `row` of this thread in fp32 and returns the factor to encode it with, for which it has
/// the reciprocal of the block's scale; `largest` holds the largest magnitudes of its chunks. All
/// threads of the thread block call it.
template <ScaledFormat Format, int kBlock, int kChunk, class Values>
__device__ __forceinline__ void encode_tile(const std::uint32_t (&largest)[kRows<kChunk>],
                                            const Values& values, std::size_t first,
                                            const WireShape& shape, std::byte* image) {
  using S = Sharing<kBlock, kChunk>;
  float reciprocals[S::kBlocks];
  scale_blocks<Format, kBlock, kChunk>(block_maximum<kBlock, kChunk>(largest), first, shape, image,
                                       reciprocals);

  const std::size_t end = shape.blocks * kBlock;
  const unsigned count = first + kTile <= end ? kTile : static_cast<unsigned>(end - first);
  std::byte* const payload = image + first * Format::bits / 8;
#pragma unroll
  for (int row = 0; row < kRows<kChunk>; ++row) {
    const int block = row / S::kRowsPerBlock;
    const unsigned place = place_of<kChunk>(row);
    if (place >= count) break;
    float chunk[kChunk];
    const float factor = values(row, reciprocals[block], chunk);
    Codes<Format, kChunk> codes = encode_codes<Format>(chunk, factor);
    const bool finite = !is_nan_bits(bits_of(reciprocals[block]));
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

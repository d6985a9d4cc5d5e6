// Code that the ways to encode new weights share (encode_weights.cuh, encode_chunk.cuh): the codes
// of a thread's values of a block of the codec, and the block's scale.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"
#include "kernels/optim/cuda/quads.cuh"
#include "kernels/optim/update_image.hpp"

namespace zeropp::optim::cuda_ops {

/// Codes of values of block `block` of a tile, whose largest magnitude (as bits) is `largest`:
/// zeros where that is not finite. `first`: the thread that writes the block's scale.
template <codec::ScaledFormat Format, int kCount>
__device__ __forceinline__ codec::cuda::Codes<Format, kCount> encode_image_block(
    const float (&values)[kCount], std::uint32_t largest, const ImageTile& tile, unsigned block,
    bool first) {
  const bool finite = is_finite_bits(largest);
  const auto scale = finite ? Format::scale_of(float_of(largest)) : Format::non_finite_scale();
  if (first) reinterpret_cast<typename Format::Scale*>(global(tile.scales))[block] = scale;
  auto codes = codec::cuda::encode_codes<Format>(values, Format::reciprocal(scale));
#pragma unroll
  for (std::uint32_t& word : codes.words) word = finite ? word : 0U;
  return codes;
}

/// Writes the zeros after the last scale of an image.
__device__ inline void pad_image(const ImageTile& tile, const ImageFormat& format) {
  if (threadIdx.x != 0) return;
  std::byte* const end =
      global(tile.scales) + (tile.values + format.block - 1) / format.block * kImageScaleBytes;
  for (unsigned i = 0; i < tile.padding; ++i) end[i] = std::byte{0};
}

}  // namespace zeropp::optim::cuda_ops

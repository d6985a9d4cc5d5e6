// The bytes of a wire image that carry nothing.
#pragma once

#include <cstddef>

#include "kernels/codec/wire.hpp"

namespace zeropp::codec::cuda {

/// Writes zeros to the padding bytes of an image, by one thread; those beside the image's own scale
/// are written with it.
__device__ __forceinline__ void zero_padding(const WireShape& shape, std::byte* image) {
  for (std::size_t i = shape.payload_bytes; i < shape.scale_offset; ++i) image[i] = std::byte{0};
  for (std::size_t i = shape.scale_offset + shape.scale_bytes; i < shape.image_offset; ++i) {
    image[i] = std::byte{0};
  }
}

}  // namespace zeropp::codec::cuda

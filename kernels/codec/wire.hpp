// Where the parts of a wire image lie: payload (whole blocks), then scales, each padded to 16
// bytes with zeros; then 16 bytes with the scale of the whole image, in formats that have one.
#pragma once

#include <cstddef>

#include "kernels/core/macros.hpp"

namespace zeropp::codec {

inline constexpr std::size_t kWireAlignment = 16;

/// The bytes of a part of an image, its padding included.
ZEROPP_HD std::size_t padded_bytes(std::size_t bytes) {
  constexpr std::size_t mask = kWireAlignment - 1;
  return (bytes + mask) & ~mask;
}

struct WireShape {
  std::size_t blocks = 0;
  std::size_t payload_bytes = 0;  ///< before padding
  std::size_t scale_offset = 0;   ///< of the first scale; also the padded size of the payload
  std::size_t scale_bytes = 0;    ///< of all scales, before padding
  std::size_t image_offset = 0;   ///< of the image's own scale; also the padded end of the scales
  std::size_t bytes = 0;          ///< the whole image
};

/// The image of n values: `bits` a value, `scale_bytes` a block of `block` values; `scaled`: it has
/// a scale of its own, an fp32 value and 12 zero bytes.
ZEROPP_HD WireShape wire_shape(std::size_t n, std::size_t block, std::size_t bits,
                               std::size_t scale_bytes, bool scaled = false) {
  WireShape shape;
  shape.blocks = (n + block - 1) / block;
  shape.payload_bytes = (shape.blocks * block * bits + 7) / 8;
  shape.scale_offset = padded_bytes(shape.payload_bytes);
  shape.scale_bytes = shape.blocks * scale_bytes;
  shape.image_offset = shape.scale_offset + padded_bytes(shape.scale_bytes);
  shape.bytes = shape.image_offset + (scaled && n > 0 ? kWireAlignment : 0);
  return shape;
}

}  // namespace zeropp::codec

// An update that writes the wire image of the new weights as well (kernels/codec): codes and scales
// of a block codec, of the weights rounded to the dtype that they are sent in, in the pass that
// updates them. The bytes are the same as those of an update and then an encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/optim/update.hpp"

namespace zeropp::optim {

/// The codecs that there are kernels for: `int8` and `int4` without options.
struct ImageFormat {
  unsigned bits = 8;            ///< a code has: 4 or 8
  std::uint32_t block = 256;    ///< values of a scale: a power of two, of kImageBlocks
  Dtype rounded = Dtype::fp32;  ///< that weights are rounded to before all else
  bool operator==(const ImageFormat&) const = default;
};

/// Whether an optimizer that keeps `states` moments has updates that write images.
constexpr bool writes_images(std::size_t states) { return states == kMostStates; }

/// The smallest and the largest block.
inline constexpr std::uint32_t kImageBlocks[] = {32, 1024};

/// Bytes of a scale, which is bf16.
inline constexpr std::size_t kImageScaleBytes = 2;

/// Values of a tile, which a thread block updates and encodes: a multiple of every block.
inline constexpr std::size_t kImageTile = 4096;

/// A tile of an image: weights in a row, of which pieces of a table are updated. Weights that no
/// piece has are encoded as they are.
struct ImageTile {
  const float* weight;    ///< of the tile's first value
  std::byte* codes;       ///< of it, at a multiple of 16 bytes
  std::byte* scales;      ///< of its block: bf16
  std::uint32_t first;    ///< piece that has the tile's first weights, by its index in the table
  std::uint32_t pieces;   ///< that have its weights, in their order
  std::uint32_t values;   ///< of the tile: kImageTile, less in the last one of an image
  std::uint32_t padding;  ///< zero bytes after its last scale, in an image's last tile
};

/// One step on all pieces of the tiles, as UpdatePieces without 16-bit weights, and the image of
/// the new weights. `pieces`: the table that tiles have their indices in.
using UpdateTiles = void (*)(const Options&, const Step&, const ImageFormat&,
                             std::span<const UpdatePiece> pieces, std::span<const ImageTile> tiles,
                             StreamHandle);

}  // namespace zeropp::optim

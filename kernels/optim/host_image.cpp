#include "kernels/optim/host_image.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"
#include "kernels/codec/host_scaled.hpp"

namespace zeropp::optim {

namespace {

template <codec::ScaledFormat Format>
void encode_tile_as(const ImageTile& tile, const ImageFormat& format) {
  // A shape of no blocks: none is the last one, which would write the padding that is written
  // below.
  const codec::WireShape shape{.scale_offset = static_cast<std::size_t>(tile.scales - tile.codes)};
  std::size_t index = 0;
  for (std::size_t first = 0; first < tile.values; first += format.block, ++index) {
    float values[kImageBlocks[1]];
    const std::size_t count = std::min<std::size_t>(format.block, tile.values - first);
    std::fill(std::copy_n(tile.weight + first, count, values), values + format.block, 0.0F);
    const float* const rounded =
        codec::rounded_values(format.rounded, values, format.block, values);
    codec::encode_block<Format>(rounded, format.block, index, shape, tile.codes);
  }
  std::memset(tile.scales + index * kImageScaleBytes, 0, tile.padding);
}

}  // namespace

void encode_tile(const ImageTile& tile, const ImageFormat& format) {
  if (format.bits == 8) {
    encode_tile_as<codec::format::int8::Format>(tile, format);
  } else {
    encode_tile_as<codec::format::int4::Format>(tile, format);
  }
}

}  // namespace zeropp::optim

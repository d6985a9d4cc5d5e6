// The image of a tile of new weights on the host: the plain reference of cuda/encode_weights.cuh
// and cuda/encode_chunk.cuh.
#pragma once

#include "kernels/optim/update_image.hpp"

namespace zeropp::optim {

/// Writes codes, scales and padding of a tile whose weights are up to date.
void encode_tile(const ImageTile& tile, const ImageFormat& format);

}  // namespace zeropp::optim

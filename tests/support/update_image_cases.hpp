// Updates that write the wire image of the new weights, on any device. Images, weights and moments
// equal the results of the host's update and then the host's codec, byte for byte. Nothing beside
// the image is written.
#pragma once

#include "kernels/core/view.hpp"
#include "lib/device/compute_device.hpp"

namespace zeropp::optim {

/// Every block, width and dtype that is sent, with ragged ends and values that are not finite.
void compare_every_codec_dtype_and_length(const ComputeDevice& device);
/// Every kind of moments, with gaps between tensors and images in chunks.
void compare_every_optimizer_and_kind_of_moments_in_parts(const ComputeDevice& device);
void expect_tiles_of_optimizers_with_two_moments(MemoryKind memory);

}  // namespace zeropp::optim

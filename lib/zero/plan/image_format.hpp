// Which codecs an optimizer's update can write images in (kernels/optim/update_image.hpp).
#pragma once

#include <optional>

#include "kernels/codec/spec.hpp"
#include "kernels/optim/update_image.hpp"

namespace zeropp::zero {

/// The form in which an update writes images of `spec`, of weights rounded to `rounded`; empty
/// where there is no kernel for the codec. `spec` is one that parse_codec() returns.
std::optional<optim::ImageFormat> image_format(const codec::CodecSpec& spec, Dtype rounded);

}  // namespace zeropp::zero

#include "lib/zero/plan/image_format.hpp"

#include <bit>

#include "kernels/codec/codec.hpp"

namespace zeropp::zero {

std::optional<optim::ImageFormat> image_format(const codec::CodecSpec& spec, Dtype rounded) {
  const bool narrow = spec.format == "int4";
  if ((!narrow && spec.format != "int8") || !spec.options.empty()) return std::nullopt;
  const std::size_t block = codec::Codec(spec, rounded).block();
  const auto [smallest, largest] = optim::kImageBlocks;
  if (!std::has_single_bit(block) || block < smallest || block > largest) return std::nullopt;
  return optim::ImageFormat{
      .bits = narrow ? 4U : 8U, .block = static_cast<std::uint32_t>(block), .rounded = rounded};
}

}  // namespace zeropp::zero

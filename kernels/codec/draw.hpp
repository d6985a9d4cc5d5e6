// Random numbers for stochastic rounding (+sr): the counter-based generator of kernels/core, with a
// key for each encoding and a number for each value. The encoder gives each value the same number
// however the values are cut into chunks, so that neither the cut nor the order of the draws
// changes a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/planes.hpp"
#include "kernels/core/macros.hpp"

namespace zeropp::codec {

/// Value e of slice j of image i has the number first + i * image_step + j * slice_step + e; what
/// pads the last block is numbered on. All four are multiples of kGroup, or draws may repeat: where
/// a group of 32 wire values is in several slices, its values are numbered on from its first, whose
/// number is rounded down.
struct Draw {
  std::uint64_t key = 0;
  std::uint64_t first = 0;
  std::uint64_t image_step = 0;
  std::uint64_t slice_step = 0;

  /// Number of the group that begins with wire value `wire` of image `image`, which has `slices`
  /// slices of `padded` values.
  [[nodiscard]] ZEROPP_HD std::uint64_t number(std::size_t image, std::size_t wire,
                                               std::size_t slices, std::size_t padded) const {
    const std::size_t inside = wire < padded ? 0 : wire / padded;
    const std::size_t slice = inside < slices ? inside : slices - 1;
    const std::uint64_t at =
        first + image * image_step + slice * slice_step + wire - slice * padded;
    return at / kGroup * kGroup;
  }
};

}  // namespace zeropp::codec

// Shapes and decays that the tests of error feedback share.
#pragma once

#include <vector>

#include "kernels/codec/codec.hpp"

namespace zeropp::test {

/// Values in memory and errors beside them, with gaps after the slices of either.
struct FeedbackShape {
  codec::Layout layout;
  std::size_t errors_image_stride;
  std::size_t errors_slice_stride;

  [[nodiscard]] std::size_t values() const { return layout.images * layout.image_stride; }
  [[nodiscard]] std::size_t errors() const { return layout.images * errors_image_stride; }
};

/// Images of slices of slices; one value, none, ragged tails, and more slices than one task's.
inline std::vector<FeedbackShape> feedback_shapes(std::size_t block) {
  const auto shape = [](std::size_t images, std::size_t slices, std::size_t length,
                        std::size_t padded) {
    const std::size_t gap = length + 5;
    const std::size_t error_gap = length + 3;
    return FeedbackShape{
        {images, slices * gap, slices, gap, length, padded}, slices * error_gap, error_gap};
  };
  return {shape(1, 1, 1, block),
          shape(3, 2, 0, 0),
          shape(2, 3, 77, 77),
          shape(4, 1, block, block),
          shape(2, 2, block + 17, (block + 16) / block * block + block),
          shape(1, 1, 5003, 5003),
          shape(70, 1, 40, 40)};
}

inline constexpr float kDecays[] = {0.0F, 0.8F};

}  // namespace zeropp::test

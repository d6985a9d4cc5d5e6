// Where a moment of an optimizer lies, as it is kept.
#pragma once

#include <cstddef>

namespace zeropp::zero {

/// Values, and in 8 bits the scales of their blocks.
struct KeptMoment {
  std::byte* values = nullptr;
  float* scales = nullptr;
};

}  // namespace zeropp::zero

// Values that encode() reads on the host from fp32 memory when it rounds them first
// (Params::rounded): the values that memory of the narrower dtype would hold, so that the images
// are the same. The CUDA kernels use cuda/vector.cuh.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/core/half.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::codec {

/// `count` values of memory as encode() reads them: in place, or rounded in `buffer`.
template <class Memory>
const Memory* rounded_values(Dtype dtype, const Memory* values, std::size_t count, Memory* buffer) {
  if constexpr (std::is_same_v<Memory, float>) {
    if (dtype != Dtype::fp32) {
      with_type(dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        for (std::size_t i = 0; i < count; ++i) {
          buffer[i] = to_float(saturating_cast<T>(values[i]));
        }
      });
      return buffer;
    }
  }
  return values;
}

}  // namespace zeropp::codec

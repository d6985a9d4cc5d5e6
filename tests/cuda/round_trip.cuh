// A kernel that uses every device function of a codec format.
#pragma once

#include "kernels/codec/format.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// Each value of one block through the format and back; `absmax` is the block's largest magnitude.
template <class Format>
__global__ void round_trip(const float* values, float absmax, float* decoded) {
  const float value = values[threadIdx.x];
  if constexpr (ScaledFormat<Format>) {
    const bool finite = is_finite_bits(bits_of(absmax));
    const auto stored = finite ? Format::scale_of(absmax) : Format::non_finite_scale();
    const auto code = Format::encode(value, Format::reciprocal(stored));
    const float scale = Format::scale_value(stored);
    decoded[threadIdx.x] = Format::accumulate(code, scale, Format::decode(code, scale));
  } else {
    decoded[threadIdx.x] = to_float(saturating_cast<typename Format::Wire>(value));
  }
}

}  // namespace zeropp::codec

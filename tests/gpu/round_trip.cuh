// A kernel that uses every device function of a codec format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/format.hpp"
#include "kernels/codec/packing.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// 32 values of one block through the format and back; `absmax` is the block's largest magnitude.
template <class Format>
__global__ void round_trip(const float* values, float absmax, std::uint8_t* payload, float* decoded,
                           std::size_t* bytes) {
  if constexpr (ScaledFormat<Format>) {
    const bool finite = is_finite_bits(bits_of(absmax));
    const auto stored = finite ? Format::scale_of(absmax) : Format::non_finite_scale();
    const float reciprocal = Format::reciprocal(stored);
    const float scale = Format::scale_value(stored);
    typename Format::Code codes[32];
    for (int i = 0; i < 32; ++i) codes[i] = Format::encode(values[i], reciprocal);
    pack<Format::bits, 32>(codes, payload);
    unpack<Format::bits, 32>(payload, codes);
    for (int i = 0; i < 32; ++i) {
      decoded[i] = Format::accumulate(codes[i], scale, Format::decode(codes[i], scale));
    }
    *bytes = wire_shape(32, 32, Format::bits, sizeof(stored)).bytes;
  } else {
    for (int i = 0; i < 32; ++i) {
      decoded[i] = to_float(saturating_cast<typename Format::Wire>(values[i]));
    }
  }
}

}  // namespace zeropp::codec

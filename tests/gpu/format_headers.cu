// The formats' scalar maths in a kernel: every function that a CUDA launcher will call compiles for
// the device.
#include <cstddef>
#include <cstdint>

#include "kernels/codec/formats/bf16.hpp"
#include "kernels/codec/formats/fp16.hpp"
#include "kernels/codec/formats/int4.hpp"
#include "kernels/codec/formats/int8.hpp"
#include "kernels/codec/formats/none.hpp"
#include "kernels/codec/packing.hpp"
#include "kernels/codec/wire.hpp"

namespace zeropp::codec {

static_assert(ScaledFormat<format::int4::Format> && ScaledFormat<format::int8::Format>);
static_assert(CastFormat<format::none::Format> && CastFormat<format::bf16::Format>);

template <ScaledFormat Format>
__global__ void round_trip(const float* values, float absmax, std::uint8_t* payload, float* sum,
                           std::size_t* bytes) {
  typename Format::Code codes[32];
  const auto scale = absmax > 0 ? Format::scale_of(absmax) : Format::non_finite_scale();
  for (int i = 0; i < 32; ++i) codes[i] = Format::encode(values[i], Format::reciprocal(scale));
  pack<Format::bits, 32>(codes, payload);
  unpack<Format::bits, 32>(payload, codes);
  const float step = Format::scale_value(scale);
  for (int i = 0; i < 32; ++i) {
    sum[i] = Format::accumulate(codes[i], step, Format::decode(codes[i], step));
  }
  *bytes = wire_shape(32, 32, Format::bits, sizeof(scale)).bytes;
}

template <CastFormat Format>
__global__ void cast(const float* values, typename Format::Wire* wire, float* back) {
  const unsigned i = threadIdx.x;
  wire[i] = saturating_cast<typename Format::Wire>(values[i]);
  back[i] = add(back[i], to_float(wire[i]));
}

template __global__ void round_trip<format::int4::Format>(const float*, float, std::uint8_t*,
                                                          float*, std::size_t*);
template __global__ void round_trip<format::int8::Format>(const float*, float, std::uint8_t*,
                                                          float*, std::size_t*);
template __global__ void cast<format::none::Format>(const float*, float*, float*);
template __global__ void cast<format::bf16::Format>(const float*, Bf16*, float*);
template __global__ void cast<format::fp16::Format>(const float*, Fp16*, float*);

}  // namespace zeropp::codec

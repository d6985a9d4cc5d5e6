// A format's table of CUDA kernels, for cuda_format.cu.in.
#pragma once

#include "kernels/codec/cuda/cuda_tables.cuh"
#include "kernels/codec/cuda/decode.cuh"
#include "kernels/codec/cuda/encode.cuh"

namespace zeropp::codec::cuda {

template <class Format>
struct FormatLaunchers {
  template <class Memory>
  static void encode(const Params& params, const Memory* memory, const Layout& layout,
                     WireImages out, StreamHandle stream) {
    cuda::encode<Format>(params, memory, layout, out, stream);
  }
  template <class Memory>
  static void decode(const Params& params, ConstWireImages in, const Layout& layout, Memory* memory,
                     StreamHandle stream) {
    cuda::decode<Format>(params, in, layout, memory, stream);
  }
  template <bool kFromZero>
  static void accumulate(const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, float* sum,
                         StreamHandle stream) {
    cuda::accumulate<Format, kFromZero>(params, in, images, wire_elements, n, sum, stream);
  }
};

/// Null for a ruled format: the rule has the kernels.
template <class Format>
const CodecOps* cuda_ops() {
  if constexpr (RuledFormat<Format>) {
    return nullptr;
  } else {
    static const CodecOps ops = cuda_table<FormatLaunchers<Format>>();
    return &ops;
  }
}

}  // namespace zeropp::codec::cuda

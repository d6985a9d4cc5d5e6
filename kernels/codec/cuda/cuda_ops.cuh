// A format's table of CUDA kernels, for cuda_format.cu.in.
#pragma once

#include <type_traits>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/cuda/decode.cuh"
#include "kernels/codec/cuda/encode.cuh"

namespace zeropp::codec::cuda {

template <class Format>
CodecOps cuda_ops() {
  static_assert(ScaledFormat<Format> != CastFormat<Format>, "see format.hpp for the two kinds");
  CodecOps ops{};
  ops.encode = [](const Params& params, ConstView memory, const Layout& layout, WireImages out,
                  StreamHandle stream) {
    check_memory(memory, layout, Backend::cuda);
    check_images(out, layout.images);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      encode<Format>(params, memory.as<Memory>(), layout, out, stream);
    });
  };
  ops.decode = [](const Params& params, ConstWireImages in, const Layout& layout, View memory,
                  StreamHandle stream) {
    check_memory(memory, layout, Backend::cuda);
    check_images(in, layout.images);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      decode<Format>(params, in, layout, memory.as<Memory>(), stream);
    });
  };
  ops.decode_add = [](const Params& params, ConstWireImages in, std::size_t wire_elements,
                      std::size_t n, float* accumulator, StreamHandle stream) {
    check_images(in, 1);
    accumulate<Format, false>(params, in, 1, wire_elements, n, accumulator, stream);
  };
  ops.decode_reduce = [](const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, float* sum,
                         StreamHandle stream) {
    check_images(in, images);
    accumulate<Format, true>(params, in, images, wire_elements, n, sum, stream);
  };
  return ops;
}

}  // namespace zeropp::codec::cuda

// A back end's table from launchers of a format or a rule: checks, and the memory dtype as a type.
// `Launchers` has encode<Memory>(), decode<Memory, kOnto>(), which adds to memory with kOnto, and
// accumulate<kFromZero>().
#pragma once

#include <type_traits>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/codec.hpp"

namespace zeropp::codec::cuda {

template <class Launchers>
CodecOps cuda_table() {
  CodecOps ops{};
  ops.encode = [](const Params& params, ConstView memory, const Layout& layout, WireImages out,
                  StreamHandle stream) {
    check_memory(memory, layout, Backend::cuda);
    check_images(out, layout.images);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      Launchers::template encode<Memory>(params, memory.as<Memory>(), layout, out, stream);
    });
  };
  ops.decode = [](const Params& params, ConstWireImages in, const Layout& layout, View memory,
                  StreamHandle stream) {
    check_memory(memory, layout, Backend::cuda);
    check_images(in, layout.images);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      Launchers::template decode<Memory, false>(params, in, layout, memory.as<Memory>(), stream);
    });
  };
  ops.decode_onto = [](const Params& params, ConstWireImages in, const Layout& layout, View memory,
                       StreamHandle stream) {
    check_memory(memory, layout, Backend::cuda);
    check_images(in, layout.images);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      Launchers::template decode<Memory, true>(params, in, layout, memory.as<Memory>(), stream);
    });
  };
  ops.decode_add = [](const Params& params, ConstWireImages in, std::size_t wire_elements,
                      std::size_t n, float* accumulator, StreamHandle stream) {
    check_images(in, 1);
    Launchers::template accumulate<false>(params, in, 1, wire_elements, n, accumulator, stream);
  };
  ops.decode_reduce = [](const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, float* sum,
                         StreamHandle stream) {
    check_images(in, images);
    Launchers::template accumulate<true>(params, in, images, wire_elements, n, sum, stream);
  };
  return ops;
}

}  // namespace zeropp::codec::cuda

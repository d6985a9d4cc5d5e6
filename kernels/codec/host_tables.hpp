// A back end's table from the host's kernels of a format or a rule: checks, and the memory dtype as
// a type. `Kernels` has encode<Memory>(), decode<Memory>() and accumulate().
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/codec.hpp"

namespace zeropp::codec {

template <class Kernels>
CodecOps host_table() {
  CodecOps ops{};
  ops.encode = [](const Params& params, ConstView memory, const Layout& layout, WireImages out,
                  StreamHandle) {
    check_memory(memory, layout, Backend::host);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      Kernels::template encode<Memory>(params, memory.as<Memory>(), layout, out);
    });
  };
  ops.decode = [](const Params& params, ConstWireImages in, const Layout& layout, View memory,
                  StreamHandle) {
    check_memory(memory, layout, Backend::host);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      Kernels::template decode<Memory>(params, in, layout, memory.as<Memory>());
    });
  };
  ops.decode_add = [](const Params& params, ConstWireImages in, std::size_t wire_elements,
                      std::size_t n, float* accumulator, StreamHandle) {
    Kernels::accumulate(params, in, 1, wire_elements, n, false, accumulator);
  };
  ops.decode_reduce = [](const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, float* sum, StreamHandle) {
    Kernels::accumulate(params, in, images, wire_elements, n, true, sum);
  };
  return ops;
}

}  // namespace zeropp::codec

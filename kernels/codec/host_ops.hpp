// A format's description and its table of host kernels, for host_format.cpp.in.
#pragma once

#include <type_traits>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/host_cast.hpp"
#include "kernels/codec/host_scaled.hpp"
#include "kernels/codec/registry.hpp"

namespace zeropp::codec {

template <class Format>
constexpr FormatInfo describe() {
  FormatInfo info;
  info.name = Format::name;
  info.summary = Format::summary;
  info.bits = Format::bits;
  if constexpr (ScaledFormat<Format>) {
    static_assert(Format::maximum_block <= kLargestBlock);
    info.scale_bytes = sizeof(typename Format::Scale);
    info.default_block = Format::default_block;
    info.minimum_block = Format::minimum_block;
    info.maximum_block = Format::maximum_block;
    info.error_bound = [](float x, float absmax) {
      return Format::error_bound(x, Format::scale_value(Format::scale_of(absmax)));
    };
  } else {
    info.error_bound = [](float x, float) { return Format::error_bound(x, 0.0); };
  }
  if constexpr (requires { Format::options; }) info.options = Format::options;
  return info;
}

template <class Format>
CodecOps host_ops() {
  static_assert(ScaledFormat<Format> != CastFormat<Format>, "see format.hpp for the two kinds");
  CodecOps ops{};
  ops.encode = [](const Params& params, ConstView memory, const Layout& layout, WireImages out,
                  StreamHandle) {
    check_memory(memory, layout, Backend::host);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      HostKernels<Format, Memory>::encode(params, memory.as<Memory>(), layout, out);
    });
  };
  ops.decode = [](const Params& params, ConstWireImages in, const Layout& layout, View memory,
                  StreamHandle) {
    check_memory(memory, layout, Backend::host);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      HostKernels<Format, Memory>::decode(params, in, layout, memory.as<Memory>());
    });
  };
  ops.decode_add = [](const Params& params, ConstWireImages in, std::size_t wire_elements,
                      std::size_t n, float* accumulator, StreamHandle) {
    host_accumulate<Format>(params, in, 1, wire_elements, n, false, accumulator);
  };
  ops.decode_reduce = [](const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, float* sum, StreamHandle) {
    host_accumulate<Format>(params, in, images, wire_elements, n, true, sum);
  };
  return ops;
}

}  // namespace zeropp::codec

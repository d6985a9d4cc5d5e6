// Host side of a Layout: which memory a range of wire elements stands for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/host_for.hpp"

namespace zeropp::codec {

/// encode() and decode() of a format for one memory dtype, of either kind of format.
template <class Format, class Memory>
struct HostKernels;

/// Splits wire elements [first, last) of image `image` at the ends of slices:
/// visit(offset, wire, valid, zeros) for `valid` values at memory[offset] that are wire elements
/// from `wire` on, followed by `zeros` elements without memory.
template <class Visit>
void for_each_run(const Layout& layout, std::size_t image, std::size_t first, std::size_t last,
                  const Visit& visit) {
  while (first < last) {
    const std::size_t slice = first / layout.padded;
    const std::size_t element = first - slice * layout.padded;
    const std::size_t count = std::min(last - first, layout.padded - element);
    const std::size_t valid =
        element < layout.length ? std::min(count, layout.length - element) : 0;
    visit(image * layout.image_stride + slice * layout.slice_stride + element, first, valid,
          count - valid);
    first += count;
  }
}

/// The bytes of a wire image that carry nothing.
inline void zero_padding(const WireShape& shape, std::byte* image) {
  std::memset(image + shape.payload_bytes, 0, shape.scale_offset - shape.payload_bytes);
  const std::size_t end = shape.scale_offset + shape.scale_bytes;
  std::memset(image + end, 0, shape.bytes - end);
}

}  // namespace zeropp::codec

// Checks in the launchers of every back end. They refuse memory that they cannot reach, and memory
// that is smaller than its layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/wire.hpp"

namespace zeropp::codec {

/// Throws std::logic_error when `backend` cannot read `memory` or `layout` reaches beyond it.
inline void check_memory(const ConstView& memory, const Layout& layout, Backend backend) {
  if (layout.images == 0 || layout.slices == 0 || layout.length == 0) return;
  const bool host = backend == Backend::host;
  const char* const codec = host ? "host codec: " : "CUDA codec: ";
  if (memory.kind == (host ? MemoryKind::device : MemoryKind::host)) {
    throw std::logic_error(std::string(codec) + "memory lies on " +
                           (host ? "a device" : "the host") + "; bind the codec to its back end");
  }
  const std::size_t reach = (layout.images - 1) * layout.image_stride +
                            (layout.slices - 1) * layout.slice_stride + layout.length;
  if (layout.length > layout.padded || reach > memory.count) {
    throw std::logic_error(std::string(codec) + "a layout of " + std::to_string(reach) +
                           " elements does not fit a view of " + std::to_string(memory.count));
  }
}

/// Throws std::logic_error when not all of `count` images begin on 16 bytes.
inline void check_images(const ConstWireImages& images, std::size_t count) {
  const bool strides = count <= 1 || images.stride % kWireAlignment == 0;
  if (strides && reinterpret_cast<std::uintptr_t>(images.data) % kWireAlignment == 0) return;
  throw std::logic_error("codec: wire images begin on multiples of 16 bytes; these do not");
}

}  // namespace zeropp::codec

// Code that the host's kernels of formats and rules share: the back end's table of kernels, and the
// walk over the memory that a range of wire elements stands for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/codec.hpp"
#include "kernels/codec/rounded.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/copy_maths.hpp"
#include "kernels/core/host_for.hpp"

namespace zeropp::codec {

/// The host's kernels of a format that has its own, of either kind: what host_table() takes.
template <class Format>
struct HostKernels;

/// The host's table: checks, and the memory dtype as a type. `Kernels` has encode<Memory>(),
/// decode<Memory, kOnto>(), which adds to memory with kOnto, and accumulate().
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
      Kernels::template decode<Memory, false>(params, in, layout, memory.as<Memory>());
    });
  };
  ops.decode_onto = [](const Params& params, ConstWireImages in, const Layout& layout, View memory,
                       StreamHandle) {
    check_memory(memory, layout, Backend::host);
    with_type(memory.dtype, [&](auto* element) {
      using Memory = std::remove_pointer_t<decltype(element)>;
      Kernels::template decode<Memory, true>(params, in, layout, memory.as<Memory>());
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

/// A decoded value goes to memory, or onto what is there.
template <bool kOnto, class Memory>
void put(float value, Memory& memory) {
  if constexpr (kOnto) {
    memory = with_difference(memory, value);
  } else {
    memory = saturating_cast<Memory>(value);
  }
}

/// Wire elements that one task handles, at least: what a task begins with is then of no weight.
inline constexpr std::size_t kHostTile = 4096;

/// Walks over the wire elements of image `image` from `first` on.
class WireWalk {
 public:
  WireWalk(const Layout& layout, std::size_t image, std::size_t first)
      : layout_(layout),
        wire_(first),
        element_(layout.padded == 0 ? 0 : first % layout.padded),
        slice_begin_(image * layout.image_stride +
                     (layout.padded == 0 ? 0 : first / layout.padded) * layout.slice_stride) {}

  /// Splits the next `count` wire elements at the ends of slices: visit(offset, wire, valid, zeros)
  /// for `valid` values at memory[offset] that are wire elements from `wire` on, followed by
  /// `zeros` elements without memory.
  template <class Visit>
  void next(std::size_t count, const Visit& visit) {
    while (count > 0) {
      const std::size_t run = std::min(count, layout_.padded - element_);
      const std::size_t valid =
          element_ < layout_.length ? std::min(run, layout_.length - element_) : 0;
      visit(slice_begin_ + element_, wire_, valid, run - valid);
      count -= run;
      wire_ += run;
      element_ += run;
      if (element_ == layout_.padded) {
        element_ = 0;
        slice_begin_ += layout_.slice_stride;
      }
    }
  }

 private:
  const Layout& layout_;
  std::size_t wire_;
  std::size_t element_;  ///< in its slice
  std::size_t slice_begin_;
};

/// Calls work(image, first, last) for ranges of blocks that cover those of `images` images.
template <class Work>
void for_block_ranges(const char* label, std::size_t images, std::size_t blocks, std::size_t block,
                      const Work& work) {
  const std::size_t per_task = std::max(kHostTile / block, std::size_t{1});
  const std::size_t tasks = (blocks + per_task - 1) / per_task;
  host_for(label, images * tasks, [=](std::size_t task) {
    const std::size_t image = task / tasks;
    const std::size_t first = (task - image * tasks) * per_task;
    work(image, first, std::min(first + per_task, blocks));
  });
}

/// The next `count` wire elements as a block, zeros where there is no memory and fp32 values
/// rounded to `rounded`: in place where the block lies in memory so, else in `buffer`.
template <class Memory>
const Memory* load_block(const Memory* memory, WireWalk& walk, std::size_t count, std::size_t block,
                         Dtype rounded, Memory* buffer) {
  const Memory* in_place = nullptr;
  Memory* next = buffer;
  walk.next(count, [&](std::size_t offset, std::size_t, std::size_t valid, std::size_t zeros) {
    if (valid == block) {
      in_place = memory + offset;
      return;
    }
    next = std::copy_n(memory + offset, valid, next);
    next = std::fill_n(next, zeros, Memory{});
  });
  if (in_place == nullptr) std::fill(next, buffer + block, Memory{});
  return rounded_values(rounded, in_place != nullptr ? in_place : buffer, block, buffer);
}

/// The bytes of a wire image that carry nothing, but for those beside its own scale.
inline void zero_padding(const WireShape& shape, std::byte* image) {
  std::memset(image + shape.payload_bytes, 0, shape.scale_offset - shape.payload_bytes);
  const std::size_t end = shape.scale_offset + shape.scale_bytes;
  std::memset(image + end, 0, shape.image_offset - end);
}

}  // namespace zeropp::codec

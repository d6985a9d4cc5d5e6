// How the codec kernels divide their work: a thread block handles one tile of 8192 wire values of
// one image, the largest block of any format, so that no block is cut; a warp handles 1024 of them
// in rows, in which neighbouring threads hold neighbouring chunks. And where wire values lie in
// memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/cuda/vector.cuh"
#include "kernels/codec/format.hpp"

namespace zeropp::codec::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kTile = static_cast<int>(kLargestBlock);
inline constexpr int kThreads = 256;
inline constexpr int kWarpTile = kTile / (kThreads / kWarp);

/// Chunks of kChunk values that a thread holds.
template <int kChunk>
inline constexpr int kRows = kWarpTile / (kWarp * kChunk);

/// The place in the tile of the first value of this thread's chunk `row`.
template <int kChunk>
__device__ __forceinline__ unsigned place_of(int row) {
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  return warp * kWarpTile + static_cast<unsigned>(row) * (kWarp * kChunk) + lane * kChunk;
}

/// The grid of a launch: a row of tiles an image, one thread block a tile. Empty: nothing to
/// launch.
struct Tiles {
  unsigned each = 0;
  unsigned images = 0;

  [[nodiscard]] bool empty() const { return each == 0 || images == 0; }
  [[nodiscard]] dim3 grid() const { return {each, images}; }
};

/// For `images` images of `values` wire values.
inline Tiles tiles_of(std::size_t images, std::size_t values) {
  const std::size_t each = (values + kTile - 1) / kTile;
  if (each > 0x7FFFFFFF || images > 0xFFFF) {  // of a grid: 2^44 values an image
    throw std::logic_error("CUDA codec: more values or images than a launch can cover");
  }
  return {static_cast<unsigned>(each), static_cast<unsigned>(images)};
}

/// The tile of this thread block.
struct Tile {
  std::size_t image = blockIdx.y;
  std::size_t first = static_cast<std::size_t>(blockIdx.x) * kTile;  ///< wire value of the image
};

/// Values of memory that lie in a row.
struct Run {
  std::size_t offset;  ///< of the first
  std::size_t count;   ///< 0: the wire value has no memory
};

/// A Layout as kernels read it. `aligned`: whole vectors in memory lie on 16-byte boundaries.
struct DeviceLayout {
  Layout layout;
  bool aligned = false;

  template <class T>
  static DeviceLayout of(const Layout& layout, const T* memory) {
    const auto on_boundary = [](std::size_t bytes) { return bytes % 16 == 0; };
    const bool images = layout.images <= 1 || on_boundary(layout.image_stride * sizeof(T));
    const bool slices = layout.slices <= 1 || (on_boundary(layout.slice_stride * sizeof(T)) &&
                                               layout.padded % kWidth == 0);
    return {layout, images && slices && on_boundary(reinterpret_cast<std::uintptr_t>(memory))};
  }
};

/// Where the wire values of a tile lie in memory. The tile begins inside its image.
class Cursor {
 public:
  __device__ __forceinline__ Cursor(const DeviceLayout& layout, std::size_t image,
                                    std::size_t first)
      : layout_(layout) {
    const Layout& l = layout.layout;
    const std::size_t slice = l.slices == 1 ? 0 : first / l.padded;
    element_ = first - slice * l.padded;
    left_ = l.slices * l.padded - first;
    origin_ = image * l.image_stride + slice * l.slice_stride;
    whole_ = layout.aligned && element_ + kTile <= l.length;
  }

  /// The wire value `ahead` of the tile's first, and those that follow it in its slice.
  __device__ __forceinline__ Run at(unsigned ahead) const {
    const Layout& l = layout_.layout;
    std::size_t element = element_ + ahead;
    std::size_t offset = origin_;
    if (element >= l.padded) {
      if (!inside(ahead)) return {0, 0};
      const std::size_t slices = element / l.padded;
      element -= slices * l.padded;
      offset += slices * l.slice_stride;
    }
    return {offset + element, element < l.length ? l.length - element : 0};
  }

  /// The image has a wire value `ahead` of the tile's first.
  [[nodiscard]] __device__ __forceinline__ bool inside(unsigned ahead) const {
    return ahead < left_;
  }

  /// The tile is one piece of memory, on 16-byte boundaries.
  [[nodiscard]] __device__ __forceinline__ bool whole() const { return whole_; }

  /// The vector of wire values from `ahead` on, zeros where there is no memory.
  template <class T>
  __device__ __forceinline__ Vector<T> load(const T* memory, unsigned ahead) const {
    Vector<T> vector;
    const Run run = at(ahead);
    if (layout_.aligned && run.count >= kWidth) {
      load_words(memory + run.offset, vector.words);
      return vector;
    }
    if (!inside(ahead)) return vector;
#pragma unroll 1
    for (int i = kWidth - 1; i >= 0; --i) {
      const Run one = at(ahead + static_cast<unsigned>(i));
      vector.push_front(one.count > 0 ? memory[one.offset] : T{});
    }
    return vector;
  }

  /// All vectors of this thread, fp32 values rounded to `rounded`. In a tile that lies in memory as
  /// a whole no branch is between the loads, so that they are in flight together, and their
  /// addresses are one and a constant.
  template <class T>
  __device__ __forceinline__ void load_rows(const T* memory, Dtype rounded,
                                            Vector<T> (&vectors)[kRows<kWidth>]) const {
    if (whole_) {
#pragma unroll
      for (int row = 0; row < kRows<kWidth>; ++row) {
        load_words(memory + origin_ + element_ + place_of<kWidth>(row), vectors[row].words);
      }
    } else {
#pragma unroll
      for (int row = 0; row < kRows<kWidth>; ++row) {
        vectors[row] = load(memory, place_of<kWidth>(row));
      }
    }
#pragma unroll
    for (int row = 0; row < kRows<kWidth>; ++row) round_vector(rounded, vectors[row]);
  }

  /// Writes those values of the vector that have memory.
  template <class T>
  __device__ __forceinline__ void store(Vector<T> vector, T* memory, unsigned ahead) const {
    if (whole_) {
      store_words(vector.words, memory + origin_ + element_ + ahead);
      return;
    }
    const Run run = at(ahead);
    if (layout_.aligned && run.count >= kWidth) {
      store_words(vector.words, memory + run.offset);
      return;
    }
#pragma unroll 1
    for (unsigned i = 0; i < kWidth; ++i) {
      const T value = vector.pop_front();
      const Run one = at(ahead + i);
      if (one.count > 0) memory[one.offset] = value;
    }
  }

 private:
  const DeviceLayout& layout_;
  std::size_t element_;  ///< of the tile's first value, in its slice
  std::size_t left_;     ///< wire values of the image from the tile's first on
  std::size_t origin_;   ///< of that slice, in memory
  bool whole_;
};

}  // namespace zeropp::codec::cuda

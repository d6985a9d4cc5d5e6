// CUDA kernels of rules: a thread holds one group of 32 values, a thread block one tile, so that no
// block of values is cut. The maths is that of the rule, as on the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/cuda/tile.cuh"
#include "kernels/codec/cuda/vector.cuh"
#include "kernels/codec/cuda/wire_padding.cuh"
#include "kernels/codec/planes.hpp"
#include "kernels/codec/rounding.hpp"
#include "kernels/codec/rule.hpp"
#include "kernels/codec/wire.hpp"
#include "kernels/core/cuda/launch.cuh"

namespace zeropp::codec::cuda {

static_assert(kThreads * kGroup == kTile, "a group a thread");
inline constexpr int kVectors = kGroup / kWidth;  ///< of a group in memory

/// An image of blocks of 2^log2_block values.
struct RuleShape {
  WireShape wire;
  unsigned log2_block = 0;

  template <class Rule>
  static RuleShape of(const Params& params, std::size_t n) {
    return {wire_shape(n, params.block, params.numbers.bits, sizeof(typename Rule::Stored),
                       Rule::scales_images),
            static_cast<unsigned>(std::countr_zero(params.block))};
  }
  [[nodiscard]] __device__ __forceinline__ std::size_t values() const {
    return wire.blocks << log2_block;
  }
  /// Stored scale (and minimum) of the block in which wire value `at` lies.
  template <class Stored, class Byte>
  [[nodiscard]] __device__ __forceinline__ auto* stored(Byte* image, std::size_t at) const {
    using Entry = std::conditional_t<std::is_const_v<Byte>, const Stored, Stored>;
    return reinterpret_cast<Entry*>(image + wire.scale_offset) + (at >> log2_block);
  }
};

/// The group of wire values from `ahead` of the cursor on, zeros where there is no memory and fp32
/// values rounded to `rounded`.
template <class Memory>
__device__ __forceinline__ void load_group(const Cursor& cursor, const Memory* memory,
                                           Dtype rounded, unsigned ahead, float (&values)[kGroup]) {
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    Vector<Memory> vector = cursor.load(memory, ahead + static_cast<unsigned>(k * kWidth));
    round_vector(rounded, vector);
    float part[kWidth];
    widen(vector, part);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[k * kWidth + i] = part[i];
  }
}

/// Writes the decoded values that have a place in memory, or adds them to the values there (kOnto).
template <bool kOnto, class Memory>
__device__ __forceinline__ void store_group(const Cursor& cursor, const float (&values)[kGroup],
                                            Memory* memory, unsigned ahead) {
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const unsigned at = ahead + static_cast<unsigned>(k * kWidth);
    float part[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) part[i] = values[k * kWidth + i];
    if (!cursor.inside(at)) continue;
    if constexpr (kOnto) {
      cursor.store(with_differences(cursor.load(memory, at), part), memory, at);
    } else {
      cursor.store(narrow<Memory>(part), memory, at);
    }
  }
}

/// The range of the block that this thread's group lies in; `threads`: those that share a block, a
/// power of two. All threads of the thread block call it.
template <class Range>
__device__ __forceinline__ Range range_of_block(Range range, unsigned threads) {
  for (unsigned distance = 1; distance < threads && distance < kWarp; distance *= 2) {
#pragma unroll
    for (int word = 0; word < Range::kWords; ++word) {
      range.take(word, __shfl_xor_sync(0xFFFFFFFFU, range.words[word], distance));
    }
  }
  if (threads <= kWarp) return range;
  __shared__ std::uint32_t of_warp[kThreads / kWarp][Range::kWords];
  const unsigned warp = threadIdx.x / kWarp;
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int word = 0; word < Range::kWords; ++word) of_warp[warp][word] = range.words[word];
  }
  __syncthreads();
  const unsigned warps = threads / kWarp;
  for (unsigned i = 0; i < warps; ++i) {
#pragma unroll
    for (int word = 0; word < Range::kWords; ++word) {
      range.take(word, of_warp[warp / warps * warps + i][word]);
    }
  }
  return range;
}

/// Zeros where the images' own scales go, before scale_images: a thread an image.
inline __global__ void clear_image_scales(WireImages out, std::size_t images, std::size_t offset) {
  const std::size_t image = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (image >= images) return;
  *reinterpret_cast<uint4*>(out.data + image * out.stride + offset) = make_uint4(0, 0, 0, 0);
}

/// The scale of each image: the largest that one of its groups asks for. Scales are not negative:
/// their bits are in their order, whatever the order of threads.
template <class Rule, class Memory>
__global__ void __launch_bounds__(kThreads)
    scale_images(const Memory* memory, Dtype rounded, const __grid_constant__ DeviceLayout layout,
                 const __grid_constant__ RuleShape shape, WireImages out) {
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  float values[kGroup];
  load_group(cursor, memory, rounded, threadIdx.x * kGroup, values);
  typename Rule::Range range;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) range.see(values[i], i);
  const std::uint32_t largest =
      __reduce_max_sync(0xFFFFFFFFU, bits_of(Rule::image_scale_of(range)));
  if (threadIdx.x % kWarp != 0 || largest == 0) return;
  atomicMax(
      reinterpret_cast<unsigned*>(out.data + tile.image * out.stride + shape.wire.image_offset),
      largest);
}

template <class Rule, class Memory>
__global__ void __launch_bounds__(kThreads)
    encode_groups(const __grid_constant__ RuleNumbers numbers, const Memory* memory, Dtype rounded,
                  const __grid_constant__ DeviceLayout layout,
                  const __grid_constant__ RuleShape shape, WireImages out,
                  const __grid_constant__ Draw draw) {
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  const unsigned ahead = threadIdx.x * kGroup;
  float values[kGroup];
  load_group(cursor, memory, rounded, ahead, values);
  Rule::Transform::apply(values);
  std::byte* const image = out.data + tile.image * out.stride;
  const Rule rule = rule_of_image<Rule>(numbers, shape.wire, image);
  typename Rule::Range range;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) range.see(values[i], i);
  const unsigned threads = (1U << shape.log2_block) / kGroup;
  const auto stored = rule.stored(range_of_block(range, threads));

  const std::size_t first = tile.first + ahead;
  if (first >= shape.values()) return;
  const auto factors = rule.encoding(stored);
  std::uint32_t codes[kGroup];
  encode_group(rule, values, factors, draw.key,
               draw.number(tile.image, first, layout.layout.slices, layout.layout.padded), codes);
  GroupCodes(rule.numbers.bits, shape.values(), first).store(codes, image);
  if (threadIdx.x % threads == 0) *shape.stored<typename Rule::Stored>(image, first) = stored;
  if (first + kGroup == shape.values()) zero_padding(shape.wire, image);
}

template <class Rule, class Memory, bool kOnto>
__global__ void __launch_bounds__(kThreads)
    decode_groups(const __grid_constant__ RuleNumbers numbers, ConstWireImages in,
                  const __grid_constant__ RuleShape shape,
                  const __grid_constant__ DeviceLayout layout, Memory* memory) {
  const Tile tile;
  const Cursor cursor(layout, tile.image, tile.first);
  const unsigned ahead = threadIdx.x * kGroup;
  const std::size_t first = tile.first + ahead;
  if (first >= shape.values()) return;
  const std::byte* const image = in.data + tile.image * in.stride;
  const Rule rule = rule_of_image<Rule>(numbers, shape.wire, image);
  const auto factors = rule.decoding(*shape.stored<typename Rule::Stored>(image, first));
  std::uint32_t codes[kGroup];
  GroupCodes(rule.numbers.bits, shape.values(), first).load(image, codes);
  float values[kGroup];
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = rule.decode(codes[i], factors.at(i));
  Rule::Transform::apply(values);
  store_group<kOnto>(cursor, values, memory, ahead);
}

/// sum = (kFromZero ? 0 : sum) + the values of `images` images. Rotated values are summed apart and
/// rotated back at the end.
template <class Rule, bool kFromZero>
__global__ void __launch_bounds__(kThreads)
    sum_groups(const __grid_constant__ RuleNumbers numbers, ConstWireImages in, std::size_t images,
               const __grid_constant__ RuleShape shape, const __grid_constant__ DeviceLayout layout,
               float* sum) {
  constexpr bool kRotates = Rule::Transform::rotates;
  const std::size_t origin = static_cast<std::size_t>(blockIdx.x) * kTile;
  const Cursor cursor(layout, 0, origin);
  const unsigned ahead = threadIdx.x * kGroup;
  if (!cursor.inside(ahead)) return;
  const std::size_t first = origin + ahead;
  const GroupCodes group(numbers.bits, shape.values(), first);
  float values[kGroup] = {};
  if constexpr (!kFromZero && !kRotates) load_group(cursor, sum, Dtype::fp32, ahead, values);
  const std::byte* image = in.data;
  for (std::size_t left = images; left > 0; --left, image += in.stride) {
    const Rule rule = rule_of_image<Rule>(numbers, shape.wire, image);
    const auto factors = rule.decoding(*shape.stored<typename Rule::Stored>(image, first));
    std::uint32_t codes[kGroup];
    group.load(image, codes);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      values[i] = rule.accumulate(codes[i], factors.at(i), values[i]);
    }
  }
  Rule::Transform::apply(values);
  if constexpr (!kFromZero && kRotates) {
    float before[kGroup];
    load_group(cursor, sum, Dtype::fp32, ahead, before);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) values[i] = add(before[i], values[i]);
  }
  store_group<false>(cursor, values, sum, ahead);
}

/// The launchers, which cuda_tables.cuh makes a table of.
template <class Rule>
struct RuleLaunchers {
  using Reader = typename Rule::Reader;

  template <class Memory>
  static void encode(const Params& params, const Memory* memory, const Layout& layout,
                     WireImages out, StreamHandle stream) {
    const std::size_t n = layout.wire_elements();
    const Tiles tiles = tiles_of(layout.images, n);
    if (tiles.empty()) return;
    const auto on = zeropp::cuda::stream_of(stream);
    const DeviceLayout device_layout = DeviceLayout::of(layout, memory);
    const RuleShape shape = RuleShape::of<Rule>(params, n);
    if constexpr (Rule::scales_images) {
      const auto blocks = static_cast<unsigned>((layout.images + kThreads - 1) / kThreads);
      clear_image_scales<<<blocks, kThreads, 0, on>>>(out, layout.images, shape.wire.image_offset);
      scale_images<Rule, Memory>
          <<<tiles.grid(), kThreads, 0, on>>>(memory, params.rounded, device_layout, shape, out);
    }
    encode_groups<Rule, Memory><<<tiles.grid(), kThreads, 0, on>>>(
        params.numbers, memory, params.rounded, device_layout, shape, out, params.draw);
    zeropp::cuda::check_launch();
  }

  template <class Memory, bool kOnto>
  static void decode(const Params& params, ConstWireImages in, const Layout& layout, Memory* memory,
                     StreamHandle stream) {
    const std::size_t n = layout.wire_elements();
    const Tiles tiles = tiles_of(layout.images, n);
    if (tiles.empty()) return;
    const auto on = zeropp::cuda::stream_of(stream);
    decode_groups<Reader, Memory, kOnto>
        <<<tiles.grid(), kThreads, 0, on>>>(params.numbers, in, RuleShape::of<Rule>(params, n),
                                            DeviceLayout::of(layout, memory), memory);
    zeropp::cuda::check_launch();
  }

  /// The first n values of images of `wire_elements` values.
  template <bool kFromZero>
  static void accumulate(const Params& params, ConstWireImages in, std::size_t images,
                         std::size_t wire_elements, std::size_t n, float* sum,
                         StreamHandle stream) {
    if (n == 0) return;
    const Tiles tiles = tiles_of(1, n);
    sum_groups<Reader, kFromZero><<<tiles.grid(), kThreads, 0, zeropp::cuda::stream_of(stream)>>>(
        params.numbers, in, images, RuleShape::of<Rule>(params, wire_elements),
        DeviceLayout::of(Layout::contiguous(n), sum), sum);
    zeropp::cuda::check_launch();
  }
};

}  // namespace zeropp::codec::cuda

// Exact differences on the GPU: a thread holds one group of 32 values, two in a word, a warp one
// block. The bits are the host's.
#include <cub/block/block_scan.cuh>
#include <type_traits>

#include "kernels/codec/check_memory.hpp"
#include "kernels/codec/cuda/vector.cuh"
#include "kernels/codec/exact.hpp"
#include "kernels/codec/exact_math.hpp"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/memory_ops.hpp"

namespace zeropp::codec {
namespace {

using zeropp::cuda::check_launch;
using zeropp::cuda::kThreads;
using zeropp::cuda::stream_of;

constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr std::uint32_t kAll = 0xFFFFFFFFU;
static_assert(kGroupsOfBlock == kWarp, "a group a thread, a block a warp");

constexpr unsigned kScanThreads = 1024;
constexpr unsigned kScanEach = kScanTile / kScanThreads;

/// The lane's own part of the warp's blocks: body(block, first value of the group).
template <class Body>
__device__ __forceinline__ void for_groups(std::size_t blocks, const Body& body) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kWarps;
  for (std::size_t block = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
       block < blocks; block += step) {
    body(block, block * kExactBlock + lane * kGroup);
  }
}

/// Arrays of 16-byte words where they begin on 16 bytes.
template <class T>
bool on_boundary(const T* array) {
  return reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
}

/// Two values of 16 bits in a word, the first in the low half: a thread holds its group so, and
/// computes both at once.
constexpr int kPairs = kGroup / 2;
constexpr std::uint32_t kTops = 0x80008000U;

/// All bits of the halves whose top bit is set.
__device__ __forceinline__ std::uint32_t signs(std::uint32_t pair) {
  return (pair >> 15U & 0x00010001U) * 0xFFFFU;
}
__device__ __forceinline__ std::uint32_t monotone_pair(std::uint32_t patterns) {
  return patterns ^ (signs(patterns) | kTops);
}
__device__ __forceinline__ std::uint32_t code_pair(std::uint32_t values, std::uint32_t copies) {
  const std::uint32_t a = monotone_pair(values);
  const std::uint32_t b = monotone_pair(copies);
  const std::uint32_t difference = ((a | kTops) - (b & ~kTops)) ^ (~(a ^ b) & kTops);
  return (difference << 1U & 0xFFFEFFFEU) ^ signs(difference);
}
__device__ __forceinline__ std::uint32_t value_pair(std::uint32_t codes, std::uint32_t copies) {
  const std::uint32_t difference = (codes >> 1U & 0x7FFF7FFFU) ^ ((codes & 0x00010001U) * 0xFFFFU);
  const std::uint32_t a = monotone_pair(copies);
  const std::uint32_t sum = ((a & ~kTops) + (difference & ~kTops)) ^ ((a ^ difference) & kTops);
  return sum ^ (signs(~sum) | kTops);
}

/// Limits the codes to the escape, and returns which are escapes: bit i is value i.
__device__ __forceinline__ std::uint32_t limit_pairs(unsigned width,
                                                     std::uint32_t (&codes)[kPairs]) {
  const std::uint32_t escape = ((1U << width) - 1U) * 0x00010001U;
  std::uint32_t escaped = 0;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    codes[i] = __vminu2(codes[i], escape);
    const std::uint32_t others = (codes[i] ^ escape) + 0x7FFF7FFFU;  // the top bit: it is none
    const std::uint32_t tops = ~others & kTops;
    escaped |= (tops >> 15U | tops >> 30U) << static_cast<unsigned>(2 * i) &
               3U << static_cast<unsigned>(2 * i);
  }
  return escaped;
}

/// The planes of a group's codes (planes.hpp), by bytes: four codes in a word.
class GroupPlanes {
 public:
  __device__ __forceinline__ GroupPlanes(unsigned width, const ExactParts& parts, std::size_t first)
      : width_(width), plane_words_(parts.values() / kGroup), group_(first / kGroup) {}

  __device__ __forceinline__ void store(const std::uint32_t (&codes)[kPairs],
                                        std::byte* image) const {
    std::uint32_t fours[kFours];
#pragma unroll
    for (int k = 0; k < kFours; ++k) fours[k] = __byte_perm(codes[2 * k], codes[2 * k + 1], 0x6420);
    unsigned shift = 0;
    if ((width_ & 8U) != 0) {
      cuda::store_words(fours, at<8>(image, shift));
      shift += 8;
    }
    if ((width_ & 4U) != 0) {
      std::uint32_t words[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        words[k] =
            __byte_perm(nibbles(fours[2 * k] >> shift), nibbles(fours[2 * k + 1] >> shift), 0x6420);
      }
      cuda::store_words(words, at<4>(image, shift));
      shift += 4;
    }
    if ((width_ & 2U) != 0) {
      std::uint32_t words[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        std::uint32_t bytes[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          std::uint32_t four = fours[4 * k + i] >> shift & 0x03030303U;
          four |= four >> 6U;
          bytes[i] = four | four >> 12U;
        }
        words[k] = __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040),
                               __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
      }
      cuda::store_words(words, at<2>(image, shift));
      shift += 2;
    }
    if ((width_ & 1U) != 0) {
      std::uint32_t words[1] = {0};
#pragma unroll
      for (int k = 0; k < kFours; ++k) {
        std::uint32_t four = fours[k] >> shift & 0x01010101U;
        four |= four >> 7U;
        words[0] |= ((four | four >> 14U) & 0xFU) << static_cast<unsigned>(4 * k);
      }
      cuda::store_words(words, at<1>(image, shift));
    }
  }

  __device__ __forceinline__ void load(const std::byte* image,
                                       std::uint32_t (&codes)[kPairs]) const {
    std::uint32_t fours[kFours] = {};
    unsigned shift = 0;
    if ((width_ & 8U) != 0) {
      cuda::load_words(at<8>(image, shift), fours);
      shift += 8;
    }
    if ((width_ & 4U) != 0) {
      std::uint32_t words[4];
      cuda::load_words(at<4>(image, shift), words);
#pragma unroll
      for (int k = 0; k < kFours; ++k) {
        std::uint32_t four = __byte_perm(words[k / 2], 0, k % 2 == 0 ? 0x4140 : 0x4342);
        four = (four | four << 4U) & 0x0F0F0F0FU;
        fours[k] |= four << shift;
      }
      shift += 4;
    }
    if ((width_ & 2U) != 0) {
      std::uint32_t words[2];
      cuda::load_words(at<2>(image, shift), words);
#pragma unroll
      for (int k = 0; k < kFours; ++k) {
        std::uint32_t four = words[k / 4] >> static_cast<unsigned>(k % 4 * 8) & 0xFFU;
        four = (four | four << 12U) & 0x000F000FU;
        four = (four | four << 6U) & 0x03030303U;
        fours[k] |= four << shift;
      }
      shift += 2;
    }
    if ((width_ & 1U) != 0) {
      std::uint32_t words[1];
      cuda::load_words(at<1>(image, shift), words);
#pragma unroll
      for (int k = 0; k < kFours; ++k) {
        std::uint32_t four = words[0] >> static_cast<unsigned>(4 * k) & 0xFU;
        four = (four | four << 14U) & 0x00030003U;
        four = (four | four << 7U) & 0x01010101U;
        fours[k] |= four << shift;
      }
    }
#pragma unroll
    for (int k = 0; k < kFours; ++k) {
      codes[2 * k] = __byte_perm(fours[k], 0, 0x4140);
      codes[2 * k + 1] = __byte_perm(fours[k], 0, 0x4342);
    }
  }

 private:
  static constexpr int kFours = kGroup / 4;

  /// Codes of four bits: two in the bytes 0 and 2 each.
  __device__ __forceinline__ static std::uint32_t nibbles(std::uint32_t four) {
    four &= 0x0F0F0F0FU;
    return four | four >> 4U;
  }
  /// The group's words in the plane of kWidth bits, which begins with the codes' bit `shift`.
  template <unsigned kWidth, class Byte>
  __device__ __forceinline__ Byte* at(Byte* image, unsigned shift) const {
    return image + (plane_words_ * shift + group_ * kWidth) * sizeof(std::uint32_t);
  }

  unsigned width_;
  std::size_t plane_words_;  ///< of a plane of one bit
  std::size_t group_;
};

/// The patterns of a group; zeros from value n on.
template <class Copy, class T>
__device__ __forceinline__ void load_patterns(const T* array, bool aligned, std::size_t first,
                                              std::size_t n, std::uint32_t (&pairs)[kPairs]) {
  if (aligned && first + kGroup <= n) {
    if constexpr (std::is_same_v<T, float>) {
      std::uint32_t words[kGroup];
      cuda::load_words(array + first, words);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        pairs[i] = pattern_as<Copy>(float_of(words[2 * i])) |
                   pattern_as<Copy>(float_of(words[2 * i + 1])) << 16U;
      }
    } else {
      cuda::load_words(array + first, pairs);
    }
    return;
  }
  const auto one = [&](std::size_t i) { return i < n ? pattern_as<Copy>(array[i]) : 0U; };
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const std::size_t at = first + static_cast<std::size_t>(2 * i);
    pairs[i] = one(at) | one(at + 1) << 16U;
  }
}

template <class Value, class Copy>
struct Pair {
  const Value* values;
  const Copy* copy;
  std::size_t n;
  bool aligned;

  __device__ __forceinline__ void codes(std::size_t first, std::uint32_t (&codes)[kPairs]) const {
    std::uint32_t base[kPairs];
    load_patterns<Copy>(values, aligned, first, n, codes);
    load_patterns<Copy>(copy, aligned, first, n, base);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) codes[i] = code_pair(codes[i], base[i]);
  }
};

/// Sum over the lanes before this one.
__device__ __forceinline__ std::uint32_t before_in_warp(std::uint32_t value) {
  std::uint32_t sum = value;
#pragma unroll
  for (unsigned distance = 1; distance < kWarp; distance *= 2) {
    const std::uint32_t other = __shfl_up_sync(kAll, sum, distance);
    if (threadIdx.x % kWarp >= distance) sum += other;
  }
  return sum - value;
}

/// floor(log2(code + 1)): a code escapes at widths up to its class.
__device__ __forceinline__ unsigned class_of(std::uint32_t code) {
  return 31U - static_cast<unsigned>(__clz(static_cast<int>(code + 1U)));
}

/// Adds 1 to the byte of class `first` .. first + 3 that `of` is, if it is one of them.
__device__ __forceinline__ std::uint32_t in_byte(unsigned of, unsigned first) {
  return __funnelshift_lc(0U, 1U, (of - first) * 8U);  // shifts by 32 and more give 0
}

/// A grid-stride loop, so that few thread blocks add to the total.
template <class Value, class Copy>
__global__ void __launch_bounds__(kThreads)
    count_escapes(Pair<Value, Copy> pair, std::size_t blocks, std::uint16_t* counts,
                  unsigned long long* total) {
  const unsigned lane = threadIdx.x % kWarp;
  unsigned long long mine = 0;  // of lane w: escapes at width w + 1
  for_groups(blocks, [&](std::size_t block, std::size_t first) {
    std::uint32_t codes[kPairs];
    pair.codes(first, codes);
    std::uint32_t low = 0;   // values of the classes 1 to 4, a byte each
    std::uint32_t high = 0;  // and 5 to 8
#pragma unroll
    for (const std::uint32_t two : codes) {
#pragma unroll
      for (const std::uint32_t code : {two & 0xFFFFU, two >> 16U}) {
        const unsigned of = min(class_of(code), kExactWidths);
        low += in_byte(of, 1);
        high += in_byte(of, 5);
      }
    }
    // Two sums of up to 1,024 in a word.
    const std::uint32_t sums[4] = {__reduce_add_sync(kAll, low & 0x00FF00FFU),
                                   __reduce_add_sync(kAll, low >> 8U & 0x00FF00FFU),
                                   __reduce_add_sync(kAll, high & 0x00FF00FFU),
                                   __reduce_add_sync(kAll, high >> 8U & 0x00FF00FFU)};
    std::uint32_t wider = 0;
    std::uint32_t own = 0;
#pragma unroll
    for (int c = kExactWidths - 1; c >= 0; --c) {
      const std::uint32_t word = sums[c / 4 * 2 + c % 2];
      wider += c % 4 < 2 ? word & 0xFFFFU : word >> 16U;
      if (lane == static_cast<unsigned>(c)) own = wider;
    }
    if (lane < kExactWidths) counts[lane * blocks + block] = static_cast<std::uint16_t>(own);
    mine += own;
  });
  __shared__ unsigned long long of_warps[kWarps][kExactWidths];
  if (lane < kExactWidths) of_warps[threadIdx.x / kWarp][lane] = mine;
  __syncthreads();
  if (threadIdx.x >= kExactWidths) return;
  unsigned long long sum = 0;
  for (unsigned warp = 0; warp < kWarps; ++warp) sum += of_warps[warp][threadIdx.x];
  atomicAdd(total + threadIdx.x, sum);
}

/// The escapes before each block in its tile, and those of each tile.
__global__ void __launch_bounds__(kScanThreads)
    scan_tiles(const std::uint16_t* counts, std::size_t blocks, std::uint32_t* offsets,
               std::uint32_t* tiles) {
  using Scan = cub::BlockScan<std::uint32_t, kScanThreads>;
  __shared__ typename Scan::TempStorage storage;
  const std::size_t first =
      static_cast<std::size_t>(blockIdx.x) * kScanTile + threadIdx.x * kScanEach;
  std::uint32_t each[kScanEach];
#pragma unroll
  for (unsigned i = 0; i < kScanEach; ++i) each[i] = first + i < blocks ? counts[first + i] : 0U;
  std::uint32_t all = 0;
  Scan(storage).ExclusiveSum(each, each, all);
#pragma unroll
  for (unsigned i = 0; i < kScanEach; ++i) {
    if (first + i < blocks) offsets[first + i] = each[i];
  }
  if (threadIdx.x == 0) tiles[blockIdx.x] = all;
}

/// Leaves the first `room` of the escapes, and makes the others differences of 0.
__device__ __forceinline__ std::uint32_t keep_first(std::size_t room, std::uint32_t escaped,
                                                    std::uint32_t (&codes)[kPairs]) {
  std::uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    const std::uint32_t bit = escaped & 1U << static_cast<unsigned>(i);
    if (bit == 0) continue;
    if (static_cast<std::size_t>(__popc(kept)) < room) {
      kept |= bit;
    } else {
      codes[i / 2] &= i % 2 == 0 ? 0xFFFF0000U : 0x0000FFFFU;
    }
  }
  return kept;
}

template <class Value, class Copy>
__global__ void __launch_bounds__(kThreads)
    encode_blocks(Pair<Value, Copy> pair, const __grid_constant__ ExactShape shape,
                  const __grid_constant__ ExactParts parts, const std::uint32_t* tiles,
                  std::byte* image) {
  auto* const offsets = reinterpret_cast<std::uint32_t*>(image + parts.offsets);
  auto* const escapes = reinterpret_cast<std::uint16_t*>(image + parts.escapes);
  const unsigned lane = threadIdx.x % kWarp;
  for_groups(parts.blocks, [&](std::size_t block, std::size_t first) {
    std::uint32_t before = 0;
    for (std::size_t tile = lane; tile < block / kScanTile; tile += kWarp) before += tiles[tile];
    before = __reduce_add_sync(kAll, before) + offsets[block];
    std::uint32_t codes[kPairs];
    pair.codes(first, codes);
    std::uint32_t left = limit_pairs(shape.width, codes);
    std::size_t at = before + before_in_warp(static_cast<std::uint32_t>(__popc(left)));
    if (at + static_cast<std::size_t>(__popc(left)) > shape.escapes) {
      left = keep_first(at < shape.escapes ? shape.escapes - at : 0, left, codes);
    }
    GroupPlanes(shape.width, parts, first).store(codes, image);
    for (; left != 0; left &= left - 1U) {
      const std::size_t i = first + static_cast<std::size_t>(__ffs(static_cast<int>(left)) - 1);
      escapes[at++] = static_cast<std::uint16_t>(pattern_as<Copy>(pair.values[i]));
    }
    if (lane == 0) offsets[block] = before;  // all lanes have read it
  });
}

__global__ void __launch_bounds__(kThreads)
    decode_blocks(ConstWireImages in, std::size_t n, const __grid_constant__ ExactShape shape,
                  const __grid_constant__ ExactParts parts, std::uint16_t* copies, bool aligned) {
  const std::byte* const image = in.data + blockIdx.y * in.stride;
  std::uint16_t* const copy = copies + blockIdx.y * n;
  const auto* const offsets = reinterpret_cast<const std::uint32_t*>(image + parts.offsets);
  const auto* const escapes = reinterpret_cast<const std::uint16_t*>(image + parts.escapes);
  for_groups(parts.blocks, [&](std::size_t block, std::size_t first) {
    std::uint32_t codes[kPairs];
    GroupPlanes(shape.width, parts, first).load(image, codes);
    std::uint32_t left = limit_pairs(shape.width, codes);
    std::size_t at = static_cast<std::size_t>(offsets[block]) +
                     before_in_warp(static_cast<std::uint32_t>(__popc(left)));
    if (aligned && first + kGroup <= n) {
      std::uint32_t pairs[kPairs];
      cuda::load_words(copy + first, pairs);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) pairs[i] = value_pair(codes[i], pairs[i]);
      cuda::store_words(pairs, copy + first);
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        if (first + i >= n) break;
        const std::uint32_t code = i % 2 == 0 ? codes[i / 2] & 0xFFFFU : codes[i / 2] >> 16U;
        copy[first + i] = static_cast<std::uint16_t>(value_of(code, copy[first + i]));
      }
    }
    for (; left != 0; left &= left - 1U, ++at) {
      const std::size_t i = first + static_cast<std::size_t>(__ffs(static_cast<int>(left)) - 1);
      if (i < n) copy[i] = at < shape.escapes ? escapes[at] : std::uint16_t{0};
    }
  });
}

/// body(pair) of the types of both.
template <class Body>
void with_pair(const ConstView& values, const ConstView& copy, const Body& body) {
  with_type(copy.dtype, [&](auto* tag) {
    using Copy = std::remove_pointer_t<decltype(tag)>;
    if constexpr (!std::is_same_v<Copy, float>) {
      const auto* const base = copy.as<Copy>();
      const bool aligned = on_boundary(base) && on_boundary(values.as<Copy>());
      if (values.dtype == Dtype::fp32) {
        body(Pair<float, Copy>{values.as<float>(), base, values.count, aligned});
      } else {
        body(Pair<Copy, Copy>{values.as<Copy>(), base, values.count, aligned});
      }
    }
  });
}

/// Sums of the tiles, which lie after the counts.
std::uint32_t* tiles_in(std::byte* counts, std::size_t blocks) {
  return reinterpret_cast<std::uint32_t*>(counts + blocks * kExactWidths * sizeof(std::uint16_t));
}

void count(ConstView values, ConstView copy, std::byte* counts, Escapes* total,
           StreamHandle stream) {
  require_exact(values, copy, Backend::cuda);
  zeropp::cuda::check(cudaMemsetAsync(total, 0, sizeof(Escapes), stream_of(stream)));
  const std::size_t blocks = exact_blocks(values.count);
  if (blocks == 0) return;
  with_pair(values, copy, [&](const auto& pair) {
    count_escapes<<<zeropp::cuda::grid_for(blocks, kWarps), kThreads, 0, stream_of(stream)>>>(
        pair, blocks, reinterpret_cast<std::uint16_t*>(counts),
        reinterpret_cast<unsigned long long*>(total->data()));
  });
  check_launch();
}

void encode(ConstView values, ConstView copy, std::byte* counts, const ExactShape& shape,
            std::byte* image, StreamHandle stream) {
  require_exact(values, copy, Backend::cuda);
  const std::size_t bytes = exact_bytes(values.count, shape);
  if (bytes == 0) return;
  const cudaStream_t on = stream_of(stream);
  if (shape.width == kWholeWidth) {
    const std::size_t used = values.count * sizeof(std::uint16_t);
    zeropp::cuda::check(cudaMemsetAsync(image + used, 0, bytes - used, on));
    cuda_memory_ops()->convert(values, {image, values.count, copy.dtype, MemoryKind::device},
                               stream);
    return;
  }
  const ExactParts parts = ExactParts::of(values.count, shape);
  zeropp::cuda::check(cudaMemsetAsync(image + parts.offsets, 0, bytes - parts.offsets, on));
  if (parts.blocks == 0) return;
  std::uint32_t* const tiles = tiles_in(counts, parts.blocks);
  scan_tiles<<<static_cast<unsigned>((parts.blocks + kScanTile - 1) / kScanTile), kScanThreads, 0,
               on>>>(
      reinterpret_cast<const std::uint16_t*>(counts) + (shape.width - 1) * parts.blocks,
      parts.blocks, reinterpret_cast<std::uint32_t*>(image + parts.offsets), tiles);
  with_pair(values, copy, [&](const auto& pair) {
    encode_blocks<<<zeropp::cuda::grid_for(parts.blocks, kWarps), kThreads, 0, on>>>(
        pair, shape, parts, tiles, image);
  });
  check_launch();
}

void decode(ConstWireImages in, std::size_t images, std::size_t n, const ExactShape& shape,
            View copies, StreamHandle stream) {
  require_copies(copies, images, n, Backend::cuda);
  if (exact_bytes(n, shape) == 0 || images == 0) return;
  const cudaStream_t on = stream_of(stream);
  const std::size_t row = n * sizeof(std::uint16_t);
  if (shape.width == kWholeWidth) {
    zeropp::cuda::check(cudaMemcpy2DAsync(copies.data, row, in.data, images > 1 ? in.stride : row,
                                          row, images, cudaMemcpyDeviceToDevice, on));
    return;
  }
  check_images(in, images);
  const ExactParts parts = ExactParts::of(n, shape);
  auto* const to = static_cast<std::uint16_t*>(copies.data);
  const bool aligned = on_boundary(to) && (images == 1 || row % 16 == 0);
  const dim3 grid(zeropp::cuda::grid_for(parts.blocks, kWarps), static_cast<unsigned>(images));
  decode_blocks<<<grid, kThreads, 0, on>>>(in, n, shape, parts, to, aligned);
  check_launch();
}

}  // namespace

const ExactOps* cuda_exact_ops() {
  static constexpr ExactOps kOps{count, encode, decode};
  return &kOps;
}

}  // namespace zeropp::codec

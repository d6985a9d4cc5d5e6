// Sums over images of 4-bit codes of SymmetricInt in integers, by dp2a: two images per instruction,
// a third of the instructions of sums in fp32. symmetric_int_sums.hpp says when they have the same
// bits. Codes of 8 bits have no such sums: sums in fp32 keep up with the memory (82 to 90 % of a
// copy's bandwidth on an H200), while sums in integers spilled registers (77 to 81 %).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/cuda/encoded.cuh"
#include "kernels/codec/symmetric_int.hpp"
#include "kernels/codec/symmetric_int_sums.hpp"

namespace zeropp::codec::cuda {

/// Codes that IntegerSums adds.
template <class Format>
concept InIntegerSums =
    ScaledFormat<Format> && InSymmetricIntWords<Format> && Format::bits == IntegerRange::kBits;

/// Sums of kCount codes of Format, each times the integer that stands for its scale.
template <InIntegerSums Format, int kCount>
struct IntegerSums {
  /// Codes are made the high bits of bytes, so that sums count 2^-kZeros of a unit.
  static constexpr unsigned kZeros = 8 - Format::bits;
  int sums[kCount];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int& sum : sums) sum = 0;
  }
  /// Adds the codes of two images; `factors` holds the integers of their scales, the first's in the
  /// low half.
  __device__ __forceinline__ void add(const Codes<Format, kCount>& a,
                                      const Codes<Format, kCount>& b, std::uint32_t factors) {
#pragma unroll
    for (int half = 0; half < 2 * a.kWords; ++half) {
      // Bytes 0 and 1, or 2 and 3, of both words: those of one place are neighbours.
      const std::uint32_t bytes =
          __byte_perm(a.words[half / 2], b.words[half / 2], half % 2 == 0 ? 0x5140 : 0x7362);
      int* const at = sums + half * (a.kPerWord / 2);
      add_bytes((bytes << 4U) & 0xF0F0F0F0U, factors, at);
      add_bytes(bytes & 0xF0F0F0F0U, factors, at + 1);
    }
  }

 private:
  /// Every byte holds one code; those of the second place go to the sum after next.
  static __device__ __forceinline__ void add_bytes(std::uint32_t bytes, std::uint32_t factors,
                                                   int* sums) {
    const auto a = static_cast<int>(factors);
    const auto b = static_cast<int>(bytes);
    sums[0] = __dp2a_lo(a, b, sums[0]);
    sums[2] = __dp2a_hi(a, b, sums[2]);
  }
};

/// The integers of the scales of two images.
__device__ __forceinline__ std::uint32_t integer_factors(float a, float b, float reciprocal_unit) {
  return __byte_perm(integer_of_scale(a, reciprocal_unit), integer_of_scale(b, reciprocal_unit),
                     0x5410);
}

/// The sums of the chunks of `images` images, where their scales are in the range: sum[i] * unit is
/// the sum in fp32. Else false, and nothing is written.
template <InIntegerSums Format, int kChunk>
__device__ __forceinline__ bool sum_in_integers(const ConstWireImages& in, unsigned images,
                                                const ImageShape& shape, const IntegerRange& range,
                                                std::size_t first, float (&sum)[kChunk],
                                                float& unit) {
  constexpr unsigned kAtOnce = 4;  // loads in flight
  struct Chunk {
    Codes<Format, kChunk> codes;
    float scale = 0.0F;
  };
  Chunk chunks[kAtOnce];
  const std::byte* codes = in.data + first * Format::bits / 8;
  const auto* scale = reinterpret_cast<const std::byte*>(scale_at<Format>(in.data, shape, first));
  const auto next_scale = [&] {
    const auto stored = *reinterpret_cast<const typename Format::Scale*>(scale);
    scale += in.stride;
    return Format::scale_value(stored);
  };
  const auto load = [&](Chunk& chunk) {
    load_words(codes, chunk.codes.words);
    codes += in.stride;
    chunk.scale = next_scale();
  };
  const auto load_group = [&] {
#pragma unroll
    for (Chunk& chunk : chunks) load(chunk);
  };
  const bool group = images >= kAtOnce;
  unsigned left = images;
  BlockScales scales;
  if (group) {
    load_group();
    left -= kAtOnce;
  }
  const std::byte* const rest = scale;
  unsigned unseen = left;
#pragma unroll 3  // of 16 images all the rest at once
  for (; unseen >= kAtOnce; unseen -= kAtOnce) {
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) scales.see(next_scale());
  }
#pragma unroll 1
  for (; unseen > 0; --unseen) scales.see(next_scale());
  scale = rest;
  if (group) {
#pragma unroll
    for (const Chunk& chunk : chunks) scales.see(chunk.scale);
  }
  if (!scales.in(range)) return false;

  IntegerSums<Format, kChunk> sums;
  const float reciprocal_unit = scales.reciprocal_unit(range);
  const auto add = [&](const Chunk& a, const Chunk& b) {
    sums.add(a.codes, b.codes, integer_factors(a.scale, b.scale, reciprocal_unit));
  };
  sums.clear();
  if (group) {
    add(chunks[0], chunks[1]);
    add(chunks[2], chunks[3]);
  }
  for (; left >= kAtOnce; left -= kAtOnce) {
    load_group();
    // The assembler would put off loads to save registers, and wait for one after the other.
    __syncwarp(__activemask());
    add(chunks[0], chunks[1]);
    add(chunks[2], chunks[3]);
  }
#pragma unroll 1
  for (; left > 0; --left) {
    Chunk chunk;
    load(chunk);
    add(chunk, {});
  }
  unit = scales.unit(range) * (1.0F / static_cast<float>(1U << sums.kZeros));
#pragma unroll
  for (int i = 0; i < kChunk; ++i) sum[i] = static_cast<float>(sums.sums[i]);
  return true;
}

}  // namespace zeropp::codec::cuda

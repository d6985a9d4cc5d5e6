// Updates of a piece whose moments are kept in bf16 or in 8 bits (kernels/optim/moments.hpp): those
// of the host, bit for bit.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/optim/cuda/quads.cuh"
#include "kernels/optim/cuda/update_block.cuh"
#include "kernels/optim/moments.hpp"
#include "kernels/optim/update.hpp"

namespace zeropp::optim::cuda_ops {

inline constexpr unsigned kMomentTurns = 2;  ///< quads of elements that a thread has in flight

/// Two words of bf16: four moments.
__device__ inline void widen_quad(const uint2& words, float (&wide)[4]) {
  wide[0] = float_of(words.x << 16U);
  wide[1] = float_of(words.x & 0xFFFF0000U);
  wide[2] = float_of(words.y << 16U);
  wide[3] = float_of(words.y & 0xFFFF0000U);
}

__device__ inline unsigned bf16_pair(float low, std::uint32_t low_draw, float high,
                                     std::uint32_t high_draw) {
  return stochastic_bf16(low, low_draw).bits |
         static_cast<unsigned>(stochastic_bf16(high, high_draw).bits) << 16U;
}

/// Moment `state` of four elements, rounded by the draws of each.
__device__ inline uint2 bf16_quad(const float (&wide)[4], const Random4& draws, unsigned state) {
  const unsigned shift = 16 * state;
  return {bf16_pair(wide[0], draws.word[0] >> shift, wide[1], draws.word[1] >> shift),
          bf16_pair(wide[2], draws.word[2] >> shift, wide[3], draws.word[3] >> shift)};
}

template <class Update, class Narrow, std::size_t... State>
__device__ __forceinline__ void update_bf16_moments(const GradientScale& scale, std::uint64_t draws,
                                                    const typename Update::Constants& c,
                                                    const UpdatePiece& piece,
                                                    std::index_sequence<State...>) {
  const float* const gradient = global(piece.gradient);
  float* const weight = global(piece.weight);
  Bf16* const state[] = {global(static_cast<Bf16*>(piece.state[State]))...};
  const float decay = piece.decay ? c.decay : Update::no_decay;
  const bool aligned = all_aligned(16, gradient, weight) && all_aligned(8, state[State]...) &&
                       all_aligned(kNarrowQuad<Narrow>, piece.narrow) && piece.number % 4 == 0;
  const unsigned quads = aligned ? piece.count / 4 : 0;
  for (unsigned first = threadIdx.x; first < quads; first += kMomentTurns * kUpdateThreads) {
    float4 g[kMomentTurns];
    float4 w[kMomentTurns];
    uint2 s[sizeof...(State)][kMomentTurns];
#pragma unroll
    for (unsigned turn = 0; turn < kMomentTurns; ++turn) {
      const unsigned q = first + turn * kUpdateThreads;
      if (q >= quads) break;
      g[turn] = quad(gradient, q);
      w[turn] = quad(weight, q);
      ((s[State][turn] = reinterpret_cast<const uint2*>(state[State])[q]), ...);
    }
#pragma unroll
    for (unsigned turn = 0; turn < kMomentTurns; ++turn) {
      const unsigned q = first + turn * kUpdateThreads;
      if (q >= quads) break;
      float wide[sizeof...(State)][4];
      (widen_quad(s[State][turn], wide[State]), ...);
      Update::apply(scaled(g[turn].x, scale), decay, c, w[turn].x, wide[State][0]...);
      Update::apply(scaled(g[turn].y, scale), decay, c, w[turn].y, wide[State][1]...);
      Update::apply(scaled(g[turn].z, scale), decay, c, w[turn].z, wide[State][2]...);
      Update::apply(scaled(g[turn].w, scale), decay, c, w[turn].w, wide[State][3]...);
      quad(weight, q) = w[turn];
      const Random4 random = draws_of_four(draws, piece.number + 4 * std::uint64_t{q});
      ((reinterpret_cast<uint2*>(state[State])[q] = bf16_quad(wide[State], random, State)), ...);
      narrow_quad<Narrow>(piece.narrow, q, w[turn]);
    }
  }
  for (unsigned i = 4 * quads + threadIdx.x; i < piece.count; i += kUpdateThreads) {
    float wide[] = {to_float(state[State][i])...};
    Update::apply(scaled(gradient[i], scale), decay, c, weight[i], wide[State]...);
    const std::uint64_t number = piece.number + i;
    const Random4 random = draws_of_four(draws, number);
    const unsigned at = number % 4;
    const std::uint32_t word = at < 2 ? (at == 0 ? random.word[0] : random.word[1])
                                      : (at == 2 ? random.word[2] : random.word[3]);
    ((state[State][i] = stochastic_bf16(wide[State], word >> (16 * State))), ...);
    narrow_one<Narrow>(piece.narrow, i, weight[i]);
  }
}

inline constexpr unsigned kBlockLanes = kMomentBlock / 4;  ///< threads of a block of moments

static_assert(kUpdateThreads % kBlockLanes == 0 && 32 % kBlockLanes == 0,
              "the threads of a block of moments are neighbours in a warp");

__device__ const DynamicMap device_signed_map = make_dynamic_map<std::uint8_t>(true);
__device__ const DynamicMap device_unsigned_map = make_dynamic_map<std::uint8_t>(false);

/// A copy of a map for the thread block.
__device__ inline void copy_map(const DynamicMap& from, DynamicMap& to) {
  static_assert(sizeof(DynamicMap) % sizeof(uint4) == 0);
  for (unsigned i = threadIdx.x; i < sizeof(DynamicMap) / sizeof(uint4); i += kUpdateThreads) {
    reinterpret_cast<uint4*>(&to)[i] = reinterpret_cast<const uint4*>(&from)[i];
  }
}

/// Up to four consecutive values of an array; 0 beyond `count`. `whole`: four, and aligned.
__device__ inline void load_values(const float* values, bool whole, unsigned count,
                                   float (&to)[4]) {
  if (whole) {
    const float4 four = *reinterpret_cast<const float4*>(values);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
    return;
  }
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) to[k] = k < count ? values[k] : 0.0F;
}

__device__ inline std::uint32_t load_codes(const std::uint8_t* codes, bool whole, unsigned count) {
  if (whole) return *reinterpret_cast<const std::uint32_t*>(codes);
  std::uint32_t word = 0;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) word |= k < count ? std::uint32_t{codes[k]} << (8 * k) : 0U;
  return word;
}

__device__ inline void store_codes(std::uint32_t word, bool whole, unsigned count,
                                   std::uint8_t* codes) {
  if (whole) {
    *reinterpret_cast<std::uint32_t*>(codes) = word;
    return;
  }
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) codes[k] = static_cast<std::uint8_t>(word >> (8 * k));
  }
}

/// The codes of four moments, those beyond `count` not counted; the scale is that of the block, in
/// all of its threads. All threads of the warp call it.
template <bool Signed>
__device__ std::uint32_t encode_quad(const DynamicMap& map, const float (&values)[4],
                                     unsigned count, float& scale) {
  std::uint32_t largest = 0;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) largest = max(largest, magnitude_bits(values[k]));
  }
#pragma unroll
  for (unsigned half = kBlockLanes / 2; half > 0; half /= 2) {
    largest = max(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, half));
  }
  const BlockScale of = block_scale(largest);
  scale = of.scale;
  std::uint32_t word = 0;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    word |= moment_code<Signed>(map, of, values[k]) << (8 * k);
  }
  return word;
}

template <class Update, class Narrow, std::size_t... State>
__device__ __forceinline__ void update_int8_moments(const GradientScale& scale,
                                                    const typename Update::Constants& c,
                                                    const UpdatePiece& piece,
                                                    std::index_sequence<State...>) {
  __shared__ DynamicMap maps[sizeof...(State)];
  (copy_map(Update::is_signed[State] ? device_signed_map : device_unsigned_map, maps[State]), ...);
  const float* const gradient = global(piece.gradient);
  float* const weight = global(piece.weight);
  std::uint8_t* const state[] = {global(static_cast<std::uint8_t*>(piece.state[State]))...};
  float* const scales[] = {global(piece.scale[State])...};
  const float decay = piece.decay ? c.decay : Update::no_decay;
  const bool aligned = all_aligned(16, gradient, weight) && all_aligned(4, state[State]...) &&
                       all_aligned(kNarrowQuad<Narrow>, piece.narrow);
  __syncthreads();
  const unsigned quads = (piece.count + 3) / 4;  // the last may have less than four elements
  // All threads take every turn: they meet in encode_quad().
  for (unsigned first = 0; first < quads; first += kMomentTurns * kUpdateThreads) {
    float g[kMomentTurns][4];
    float w[kMomentTurns][4];
    std::uint32_t codes[sizeof...(State)][kMomentTurns];
    float factor[sizeof...(State)][kMomentTurns];
#pragma unroll
    for (unsigned turn = 0; turn < kMomentTurns; ++turn) {
      const unsigned q = first + turn * kUpdateThreads + threadIdx.x;
      const unsigned count = q < quads ? min(4U, piece.count - 4 * q) : 0U;
      const bool whole = aligned && count == 4;
      load_values(gradient + 4 * q, whole, count, g[turn]);
      load_values(weight + 4 * q, whole, count, w[turn]);
      ((codes[State][turn] = load_codes(state[State] + 4 * q, whole, count)), ...);
      ((factor[State][turn] = count > 0 ? scales[State][q / kBlockLanes] : 0.0F), ...);
    }
#pragma unroll
    for (unsigned turn = 0; turn < kMomentTurns; ++turn) {
      const unsigned q = first + turn * kUpdateThreads + threadIdx.x;
      const unsigned count = q < quads ? min(4U, piece.count - 4 * q) : 0U;
      const bool whole = aligned && count == 4;
      float wide[sizeof...(State)][4];
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        ((wide[State][k] = moment_value(maps[State], factor[State][turn],
                                        (codes[State][turn] >> (8 * k)) & 0xFFU)),
         ...);
        Update::apply(scaled(g[turn][k], scale), decay, c, w[turn][k], wide[State][k]...);
      }
      // The scale of the block: read by all of its threads before, as they meet.
      ((codes[State][turn] = encode_quad<Update::is_signed[State]>(maps[State], wide[State], count,
                                                                   factor[State][turn])),
       ...);
      if (count == 0) continue;
      if (q % kBlockLanes == 0) ((scales[State][q / kBlockLanes] = factor[State][turn]), ...);
      (store_codes(codes[State][turn], whole, count, state[State] + 4 * q), ...);
      if (whole) {
        const float4 four{w[turn][0], w[turn][1], w[turn][2], w[turn][3]};
        quad(weight, q) = four;
        narrow_quad<Narrow>(piece.narrow, q, four);
      } else {
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          if (k >= count) continue;
          weight[4 * q + k] = w[turn][k];
          narrow_one<Narrow>(piece.narrow, 4 * q + k, w[turn][k]);
        }
      }
    }
  }
}

}  // namespace zeropp::optim::cuda_ops

// Updates of a piece whose moments are kept in bf16 (kernels/optim/moments.hpp): those of the host,
// bit for bit.
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

}  // namespace zeropp::optim::cuda_ops

// The thread block of an optimizer's kernels, and its stores of the weights that follow: in 16
// bits, or fp32 in a tile of shared memory, for what encodes them there.
#pragma once

#include <type_traits>

#include "kernels/core/half.hpp"
#include "kernels/optim/cuda/quads.cuh"
#include "kernels/optim/update.hpp"

namespace zeropp::optim::cuda_ops {

inline constexpr unsigned kUpdateThreads = 256;
inline constexpr unsigned kUpdateBlocks =
    4;                                 ///< resident on a multiprocessor: 64 registers per thread
inline constexpr unsigned kLoads = 8;  ///< of 16 bytes that a thread has in flight

static_assert(sizeof(UpdatePiece) == 72);

/// Stands for a 16-bit type where UpdatePiece::narrow is a place in shared memory for the fp32
/// weights.
struct InTile {};

/// Alignment of four weights that follow, in bytes.
template <class Narrow>
inline constexpr unsigned kNarrowQuad = std::is_same_v<Narrow, InTile> ? 16 : 8;

/// The 16-bit words of four new weights. `Narrow` float: there are none.
template <class Narrow>
__device__ void narrow_quad(void* words, unsigned q, const float4& w) {
  if constexpr (std::is_same_v<Narrow, InTile>) {
    static_cast<float4*>(words)[q] = w;
  } else if constexpr (!std::is_same_v<Narrow, float>) {
    static_assert(sizeof(Narrow) == 2);
    const auto pair = [](float low, float high) {
      const unsigned high_bits = saturating_cast<Narrow>(high).bits;
      return saturating_cast<Narrow>(low).bits | high_bits << 16U;
    };
    static_cast<uint2*>(global(words))[q] = {pair(w.x, w.y), pair(w.z, w.w)};
  }
}

template <class Narrow>
__device__ void narrow_one(void* words, unsigned i, float w) {
  if constexpr (std::is_same_v<Narrow, InTile>) {
    static_cast<float*>(words)[i] = w;
  } else if constexpr (!std::is_same_v<Narrow, float>) {
    static_cast<Narrow*>(global(words))[i] = saturating_cast<Narrow>(w);
  }
}

}  // namespace zeropp::optim::cuda_ops

// AdamW over a table of pieces, a thread block a piece: the host's arithmetic, element by element.
#include <type_traits>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/optim/cuda/operations.hpp"
#include "kernels/optim/cuda/quads.cuh"

namespace zeropp::optim::cuda_ops {

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 4;  ///< resident on a multiprocessor: 64 registers a thread
constexpr unsigned kTurns = 2;   ///< quads that a thread has in flight: four loads each

static_assert(sizeof(AdamWPiece) == 48);

/// The 16-bit words of four new weights. `Narrow` float: there are none.
template <class Narrow>
__device__ void narrow_quad(void* words, unsigned q, const float4& w) {
  if constexpr (!std::is_same_v<Narrow, float>) {
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
  if constexpr (!std::is_same_v<Narrow, float>) {
    static_cast<Narrow*>(global(words))[i] = saturating_cast<Narrow>(w);
  }
}

__device__ AdamWPiece in_global_memory(AdamWPiece p) {
  return {global(p.gradient), global(p.weight), global(p.m), global(p.v),
          p.narrow,           p.count,          p.decay};
}

template <class Narrow>
__global__ void __launch_bounds__(kThreads, kBlocks)
    adamw_kernel(AdamWConstants c, const AdamWPiece* pieces) {
  const AdamWPiece p = in_global_memory(pieces[blockIdx.x]);
  const float decay_factor = p.decay ? c.decay_factor : 1.0F;
  const bool aligned = all_aligned(16, p.gradient, p.weight, p.m, p.v) && all_aligned(8, p.narrow);
  const unsigned quads = aligned ? p.count / 4 : 0;
  for (unsigned first = threadIdx.x; first < quads; first += kTurns * kThreads) {
    float4 g[kTurns];
    float4 w[kTurns];
    float4 m[kTurns];
    float4 v[kTurns];
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      const unsigned q = first + turn * kThreads;
      if (q >= quads) break;
      g[turn] = quad(p.gradient, q);
      w[turn] = quad(p.weight, q);
      m[turn] = quad(p.m, q);
      v[turn] = quad(p.v, q);
    }
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      const unsigned q = first + turn * kThreads;
      if (q >= quads) break;
      adamw_update(g[turn].x, decay_factor, c, w[turn].x, m[turn].x, v[turn].x);
      adamw_update(g[turn].y, decay_factor, c, w[turn].y, m[turn].y, v[turn].y);
      adamw_update(g[turn].z, decay_factor, c, w[turn].z, m[turn].z, v[turn].z);
      adamw_update(g[turn].w, decay_factor, c, w[turn].w, m[turn].w, v[turn].w);
      quad(p.weight, q) = w[turn];
      quad(p.m, q) = m[turn];
      quad(p.v, q) = v[turn];
      narrow_quad<Narrow>(p.narrow, q, w[turn]);
    }
  }
  // A tail of up to three, or all of a piece that is not aligned.
  for (unsigned i = 4 * quads + threadIdx.x; i < p.count; i += kThreads) {
    adamw_update(p.gradient[i], decay_factor, c, p.weight[i], p.m[i], p.v[i]);
    narrow_one<Narrow>(p.narrow, i, p.weight[i]);
  }
}

}  // namespace

void adamw(const AdamWConstants& c, Dtype narrow, std::span<const AdamWPiece> pieces,
           StreamHandle stream) {
  if (pieces.empty()) return;
  with_type(narrow, [&](auto* type) {
    using Narrow = std::remove_pointer_t<decltype(type)>;
    adamw_kernel<Narrow>
        <<<static_cast<unsigned>(pieces.size()), kThreads, 0, cuda::stream_of(stream)>>>(
            c, pieces.data());
  });
  cuda::check_launch();
}

}  // namespace zeropp::optim::cuda_ops

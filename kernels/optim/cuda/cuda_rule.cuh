// An optimizer over a table of pieces, a thread block a piece: the host's arithmetic, element by
// element. One kernel for each update of a rule, 16-bit dtype and kind of moments
// (bf16_moments.cuh, int8_moments.cuh); of updates with two moments one more for each kind of
// moments, a thread block a tile, that encodes the weights (update_image.hpp).
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/view.hpp"
#include "kernels/optim/cuda/bf16_moments.cuh"
#include "kernels/optim/cuda/encode_chunk.cuh"
#include "kernels/optim/cuda/encode_weights.cuh"
#include "kernels/optim/cuda/int8_moments.cuh"
#include "kernels/optim/cuda/quads.cuh"
#include "kernels/optim/cuda/update_block.cuh"
#include "kernels/optim/registry.hpp"
#include "kernels/optim/update.hpp"

namespace zeropp::optim {

namespace cuda_ops {

/// The arrays of a piece, of which the update keeps State...: what it does not keep is not read.
template <class Update, class Narrow, std::size_t... State>
__device__ __forceinline__ void update_piece(const GradientScale& scale,
                                             const typename Update::Constants& c,
                                             const UpdatePiece& piece,
                                             std::index_sequence<State...>) {
  constexpr unsigned kTurns = kLoads / (2 + sizeof...(State));
  const float* const gradient = global(piece.gradient);
  float* const weight = global(piece.weight);
  // One extra element: C++ has no zero-length arrays.
  float* const state[sizeof...(State) + 1] = {global(static_cast<float*>(piece.state[State]))...,
                                              nullptr};
  const float decay = piece.decay ? c.decay : Update::no_decay;
  const bool aligned = all_aligned(16, gradient, weight, state[State]...) &&
                       all_aligned(kNarrowQuad<Narrow>, piece.narrow);
  const unsigned quads = aligned ? piece.count / 4 : 0;
  for (unsigned first = threadIdx.x; first < quads; first += kTurns * kUpdateThreads) {
    float4 g[kTurns];
    float4 w[kTurns];
    float4 s[sizeof...(State) + 1][kTurns];
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      const unsigned q = first + turn * kUpdateThreads;
      if (q >= quads) break;
      g[turn] = quad(gradient, q);
      w[turn] = quad(weight, q);
      ((s[State][turn] = quad(state[State], q)), ...);
    }
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      const unsigned q = first + turn * kUpdateThreads;
      if (q >= quads) break;
      Update::apply(scaled(g[turn].x, scale), decay, c, w[turn].x, s[State][turn].x...);
      Update::apply(scaled(g[turn].y, scale), decay, c, w[turn].y, s[State][turn].y...);
      Update::apply(scaled(g[turn].z, scale), decay, c, w[turn].z, s[State][turn].z...);
      Update::apply(scaled(g[turn].w, scale), decay, c, w[turn].w, s[State][turn].w...);
      quad(weight, q) = w[turn];
      ((quad(state[State], q) = s[State][turn]), ...);
      narrow_quad<Narrow>(piece.narrow, q, w[turn]);
    }
  }
  // A tail of up to three, or all of a piece that is not aligned.
  for (unsigned i = 4 * quads + threadIdx.x; i < piece.count; i += kUpdateThreads) {
    Update::apply(scaled(gradient[i], scale), decay, c, weight[i], state[State][i]...);
    narrow_one<Narrow>(piece.narrow, i, weight[i]);
  }
}

template <class Update, class Narrow>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    update_kernel(GradientScale scale, typename Update::Constants c, const UpdatePiece* pieces) {
  const UpdatePiece piece = pieces[blockIdx.x];  // a copy: no store of ours can change it
  update_piece<Update, Narrow>(scale, c, piece, std::make_index_sequence<Update::states>());
}

/// Shared memory that the moments of a piece need.
template <class Update, Moments Kind>
struct SharedMoments {
  __device__ void load() {}
};
template <class Update>
struct SharedMoments<Update, Moments::int8> : MomentMaps<Update> {};

/// A piece, by all threads of the thread block.
template <class Update, class Narrow, Moments Kind>
__device__ __forceinline__ void update_any(const GradientScale& scale, std::uint64_t draws,
                                           const typename Update::Constants& c,
                                           const UpdatePiece& piece,
                                           const SharedMoments<Update, Kind>& shared) {
  constexpr auto kStates = std::make_index_sequence<Update::states>();
  if constexpr (Kind == Moments::fp32) {
    update_piece<Update, Narrow>(scale, c, piece, kStates);
  } else if constexpr (Kind == Moments::bf16) {
    update_bf16_moments<Update, Narrow>(scale, draws, c, piece, kStates);
  } else {
    update_int8_moments<Update, Narrow>(scale, c, piece, shared, kStates);
  }
}

/// The kernel for moments that are not fp32.
template <class Update, class Narrow, Moments Kind>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    update_moments_kernel(GradientScale scale, std::uint64_t draws, typename Update::Constants c,
                          const UpdatePiece* pieces) {
  __shared__ SharedMoments<Update, Kind> shared;
  shared.load();
  const UpdatePiece piece = pieces[blockIdx.x];
  update_any<Update, Narrow, Kind>(scale, draws, c, piece, shared);
}

/// Updates a tile of one piece and encodes it from registers, as far as the piece is aligned and
/// the codec has such a block. False: nothing was done.
template <class Update>
__device__ __forceinline__ bool update_int8_tile(const GradientScale& scale,
                                                 const typename Update::Constants& c,
                                                 const UpdatePiece& piece,
                                                 const MomentMaps<Update>& maps,
                                                 const WeightsInImage& image) {
  constexpr auto kStates = std::make_index_sequence<Update::states>();
  if (!chunks_aligned<Update>(piece, kStates) || !WeightsInImage::takes(image.format)) return false;
  for (unsigned begin = 0; begin < kImageTile; begin += kInt8Chunk) {
    update_int8_chunk<true, Update>(scale, c, piece, begin, maps, image, kStates);
  }
  pad_image(image.tile, image.format);
  return true;
}

/// The kernel that encodes as well: a tile's pieces leave their new weights in shared memory too,
/// but for what update_int8_tile() takes.
template <class Update, Moments Kind>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    update_tiles_kernel(GradientScale scale, std::uint64_t draws, typename Update::Constants c,
                        ImageFormat format, const UpdatePiece* pieces, const ImageTile* tiles) {
  __shared__ alignas(16) float weights[kImageTile];
  __shared__ SharedMoments<Update, Kind> shared;
  shared.load();
  const ImageTile tile = tiles[blockIdx.x];
  const bool covered = tile.pieces == 1 && pieces[tile.first].count == kImageTile;
  if constexpr (Kind == Moments::int8) {
    if (covered) {
      const UpdatePiece piece = pieces[tile.first];
      if (update_int8_tile<Update>(scale, c, piece, shared, {tile, format})) return;
    }
  }
  if (!covered) {
    for (unsigned i = threadIdx.x; i < kImageTile; i += kUpdateThreads) {
      weights[i] = i < tile.values ? global(tile.weight)[i] : 0.0F;
    }
    __syncthreads();
  }
  for (unsigned i = 0; i < tile.pieces; ++i) {
    UpdatePiece piece = pieces[tile.first + i];
    piece.narrow = weights + (piece.weight - tile.weight);
    update_any<Update, InTile, Kind>(scale, draws, c, piece, shared);
  }
  __syncthreads();
  if (format.bits == 8) {
    encode_weights<codec::format::int8::Format>(weights, tile, format);
  } else {
    encode_weights<codec::format::int4::Format>(weights, tile, format);
  }
}

template <class Update, class Narrow, Moments Kind>
void launch_update(const Options& options, const Step& step, std::span<const UpdatePiece> pieces,
                   StreamHandle stream) {
  const auto blocks = static_cast<unsigned>(pieces.size());
  const auto constants = Update::constants(options, step.t);
  if constexpr (Kind == Moments::fp32) {
    update_kernel<Update, Narrow><<<blocks, kUpdateThreads, 0, cuda::stream_of(stream)>>>(
        step.scale, constants, pieces.data());
  } else {
    update_moments_kernel<Update, Narrow, Kind>
        <<<blocks, kUpdateThreads, 0, cuda::stream_of(stream)>>>(step.scale, step.draws, constants,
                                                                 pieces.data());
  }
  cuda::check_launch();
}

/// UpdatePieces of a rule.
template <class Rule>
void update(const Options& options, const Step& step, Dtype narrow,
            std::span<const UpdatePiece> pieces, StreamHandle stream) {
  if (pieces.empty()) return;
  Rule::with_update(options, [&](auto chosen) {
    with_type(narrow, [&](auto* type) {
      with_moments<decltype(chosen)::states>(options.moments, [&](auto kind) {
        launch_update<decltype(chosen), std::remove_pointer_t<decltype(type)>, kind()>(
            options, step, pieces, stream);
      });
    });
  });
}

/// UpdateTiles of a rule whose updates have two moments.
template <class Rule>
void update_tiles(const Options& options, const Step& step, const ImageFormat& format,
                  std::span<const UpdatePiece> pieces, std::span<const ImageTile> tiles,
                  StreamHandle stream) {
  if (tiles.empty()) return;
  Rule::with_update(options, [&](auto chosen) {
    using Update = decltype(chosen);
    if constexpr (Update::states == kMostStates) {
      with_moments<Update::states>(options.moments, [&](auto kind) {
        update_tiles_kernel<Update, kind()>
            <<<static_cast<unsigned>(tiles.size()), kUpdateThreads, 0, cuda::stream_of(stream)>>>(
                step.scale, step.draws, Update::constants(options, step.t), format, pieces.data(),
                tiles.data());
        cuda::check_launch();
      });
    }
  });
}

}  // namespace cuda_ops

template <class Rule>
UpdatePieces cuda_update() {
  return cuda_ops::update<Rule>;
}

template <class Rule>
UpdateTiles cuda_update_tiles() {
  return cuda_ops::update_tiles<Rule>;
}

}  // namespace zeropp::optim

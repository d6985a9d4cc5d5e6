// Updates of a piece whose moments are kept in 8 bits (kernels/optim/moments.hpp): those of the
// host, bit for bit. They are bound by instructions, so that a thread has two quads of a block of
// moments: what is found once for a block is found for eight elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/optim/cuda/quads.cuh"
#include "kernels/optim/cuda/update_block.cuh"
#include "kernels/optim/moments.hpp"
#include "kernels/optim/update.hpp"

namespace zeropp::optim::cuda_ops {

inline constexpr unsigned kInt8Turns = 2;  ///< quads of a thread in a chunk
inline constexpr unsigned kInt8Row = kMomentBlock;
inline constexpr unsigned kInt8Lanes =
    kInt8Row / (4 * kInt8Turns);  ///< threads of a block of moments
inline constexpr unsigned kInt8Chunk =
    4 * kInt8Turns * kUpdateThreads;  ///< elements of a thread block

static_assert(32 % kInt8Lanes == 0, "the threads of a block of moments are neighbours in a warp");
static_assert(kUpdatePiece % kInt8Chunk == 0);

/// A value of each element that a thread has of a chunk.
using ChunkValues = float[kInt8Turns][4];

/// Where a thread's quads of a chunk lie in a piece: half a block of moments apart, so that lanes
/// in a row read 128 bytes of fp32 in a row, and a warp has 256 elements in a row.
struct ChunkPlace {
  unsigned first;  ///< element of the first quad
  unsigned end;    ///< elements of the piece

  __device__ static ChunkPlace of(unsigned begin, unsigned count) {
    return {begin + threadIdx.x / kInt8Lanes * kInt8Row + threadIdx.x % kInt8Lanes * 4, count};
  }
  [[nodiscard]] __device__ unsigned at(unsigned turn) const {
    return first + turn * 4 * kInt8Lanes;
  }
  /// Elements of a quad that there are. `Whole`: the piece has all of the chunk, and is aligned.
  template <bool Whole>
  [[nodiscard]] __device__ unsigned count(unsigned turn) const {
    if constexpr (Whole) return 4;
    return at(turn) < end ? min(4U, end - at(turn)) : 0U;
  }
  [[nodiscard]] __device__ unsigned block() const { return first / kInt8Row; }
  template <bool Whole>
  [[nodiscard]] __device__ bool has_block() const {
    return Whole || block() * kInt8Row < end;
  }
};

/// Quad `turn` of an array; elements that there are not are 0.
template <bool Whole>
__device__ __forceinline__ void load_quad(const float* values, const ChunkPlace& place,
                                          unsigned turn, float (&to)[4]) {
  const float* const from = values + place.at(turn);
  if constexpr (Whole) {
    const float4 four = quad(from, 0);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  } else {
    const unsigned count = place.count<Whole>(turn);
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) to[k] = k < count ? from[k] : 0.0F;
  }
}

template <bool Whole>
__device__ __forceinline__ void store_quad(const float (&from)[4], const ChunkPlace& place,
                                           unsigned turn, float* values) {
  float* const to = values + place.at(turn);
  if constexpr (Whole) {
    quad(to, 0) = {from[0], from[1], from[2], from[3]};
  } else {
    const unsigned count = place.count<Whole>(turn);
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      if (k < count) to[k] = from[k];
    }
  }
}

/// The weights that follow those of a chunk: UpdatePiece::narrow.
template <class Narrow>
struct NarrowWeights {
  void* weights;

  template <bool Whole>
  __device__ void store(const ChunkPlace& place, const ChunkValues& w) const {
#pragma unroll
    for (unsigned turn = 0; turn < kInt8Turns; ++turn) {
      if constexpr (Whole) {
        narrow_quad<Narrow>(weights, place.at(turn) / 4,
                            {w[turn][0], w[turn][1], w[turn][2], w[turn][3]});
      } else {
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          if (k >= place.count<Whole>(turn)) continue;
          narrow_one<Narrow>(weights, place.at(turn) + k, w[turn][k]);
        }
      }
    }
  }
};

__device__ const DynamicMap device_signed_map = make_dynamic_map<std::uint8_t>(true);
__device__ const DynamicMap device_unsigned_map = make_dynamic_map<std::uint8_t>(false);

/// A map of each moment for the thread block, in shared memory.
template <class Update>
struct MomentMaps {
  DynamicMap of[Update::states];

  /// All threads of the thread block call it.
  __device__ void load() {
    load(std::make_index_sequence<Update::states>());
    __syncthreads();
  }

 private:
  __device__ static void copy(const DynamicMap& from, DynamicMap& to) {
    static_assert(sizeof(DynamicMap) % sizeof(uint4) == 0);
    for (unsigned i = threadIdx.x; i < sizeof(DynamicMap) / sizeof(uint4); i += kUpdateThreads) {
      reinterpret_cast<uint4*>(&to)[i] = reinterpret_cast<const uint4*>(&from)[i];
    }
  }
  template <std::size_t... State>
  __device__ void load(std::index_sequence<State...>) {
    (copy(Update::is_signed[State] ? device_signed_map : device_unsigned_map, of[State]), ...);
  }
};

/// The codes of a thread's moments of a block, and the block's scale: in all of its threads. All
/// threads of the warp call it.
template <bool Signed>
__device__ __forceinline__ float encode_moments(const DynamicMap& map, const ChunkValues& values,
                                                std::uint32_t (&words)[kInt8Turns]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (unsigned i = 0; i < 4 * kInt8Turns; ++i) {
    largest = max(largest, magnitude_bits(values[i / 4][i % 4]));
  }
#pragma unroll
  for (unsigned half = kInt8Lanes / 2; half > 0; half /= 2) {
    largest = max(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, half));
  }
  const BlockScale of = block_scale(largest);
#pragma unroll
  for (unsigned turn = 0; turn < kInt8Turns; ++turn) {
    std::uint32_t codes[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) codes[k] = moment_code<Signed>(map, of, values[turn][k]);
    words[turn] = __byte_perm(__byte_perm(codes[0], codes[1], 0x0040),
                              __byte_perm(codes[2], codes[3], 0x0040), 0x5410);
  }
  return of.scale;
}

/// A moment of a chunk.
template <bool Signed>
struct ChunkMoment {
  const DynamicMap& map;
  std::uint8_t* codes;  ///< of the piece
  float* scales;
  std::uint32_t words[kInt8Turns];
  float scale;
  ChunkValues wide;

  __device__ ChunkMoment(const UpdatePiece& piece, std::size_t state, const DynamicMap& of)
      : map(of),
        codes(global(static_cast<std::uint8_t*>(piece.state[state]))),
        scales(global(piece.scale[state])) {}

  template <bool Whole>
  __device__ __forceinline__ void load(const ChunkPlace& place, unsigned turn) {
    if (turn == 0) scale = place.has_block<Whole>() ? scales[place.block()] : 0.0F;
    const std::uint8_t* const from = codes + place.at(turn);
    if constexpr (Whole) {
      words[turn] = *reinterpret_cast<const std::uint32_t*>(from);
    } else {
      words[turn] = 0;
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const bool there = k < place.count<Whole>(turn);
        words[turn] |= there ? std::uint32_t{from[k]} << (8 * k) : 0U;
      }
    }
  }
  __device__ __forceinline__ void widen(unsigned turn) {
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      wide[turn][k] = moment_value(map, scale, (words[turn] >> (8 * k)) & 0xFFU);
    }
  }
  /// Sets elements past the end to 0: they count as 0 in their block.
  template <bool Whole>
  __device__ __forceinline__ void clear_rest(const ChunkPlace& place, unsigned turn) {
    if constexpr (!Whole) {
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        if (k >= place.count<Whole>(turn)) wide[turn][k] = 0.0F;
      }
    }
  }
  /// All threads of the warp call it. Its first thread stores the scale of a block: the new one is
  /// made from moments of all threads, which have read the old one for them.
  template <bool Whole>
  __device__ __forceinline__ void store(const ChunkPlace& place) {
    const float encoded = encode_moments<Signed>(map, wide, words);
    if (threadIdx.x % kInt8Lanes == 0 && place.has_block<Whole>()) scales[place.block()] = encoded;
#pragma unroll
    for (unsigned turn = 0; turn < kInt8Turns; ++turn) {
      std::uint8_t* const to = codes + place.at(turn);
      if constexpr (Whole) {
        *reinterpret_cast<std::uint32_t*>(to) = words[turn];
      } else {
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          if (k >= place.count<Whole>(turn)) continue;
          to[k] = static_cast<std::uint8_t>(words[turn] >> (8 * k));
        }
      }
    }
  }
};

/// Updates the chunk of a piece that begins at element `begin`; `follow` stores what follows the
/// new weights. All threads of the thread block call it.
template <bool Whole, class Update, class Follow, std::size_t... State>
__device__ __forceinline__ void update_int8_chunk(const GradientScale& scale,
                                                  const typename Update::Constants& c,
                                                  const UpdatePiece& piece, unsigned begin,
                                                  const MomentMaps<Update>& maps,
                                                  const Follow& follow,
                                                  std::index_sequence<State...>) {
  const ChunkPlace place = ChunkPlace::of(begin, piece.count);
  const float* const gradient = global(piece.gradient);
  float* const weight = global(piece.weight);
  const float decay = piece.decay ? c.decay : Update::no_decay;
  ChunkValues g;
  ChunkValues w;
  const auto update = [&](auto&&... moment) {
#pragma unroll
    for (unsigned turn = 0; turn < kInt8Turns; ++turn) {
      load_quad<Whole>(gradient, place, turn, g[turn]);
      load_quad<Whole>(weight, place, turn, w[turn]);
      (moment.template load<Whole>(place, turn), ...);
    }
#pragma unroll
    for (unsigned turn = 0; turn < kInt8Turns; ++turn) {
      (moment.widen(turn), ...);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        Update::apply(scaled(g[turn][k], scale), decay, c, w[turn][k], moment.wide[turn][k]...);
      }
      store_quad<Whole>(w[turn], place, turn, weight);
      (moment.template clear_rest<Whole>(place, turn), ...);
    }
    follow.template store<Whole>(place, w);
    (moment.template store<Whole>(place), ...);
  };
  update(ChunkMoment<Update::is_signed[State]>(piece, State, maps.of[State])...);
}

/// Whether the chunks of a piece that it has all of are whole.
template <class Update, std::size_t... State>
__device__ bool chunks_aligned(const UpdatePiece& piece, std::index_sequence<State...>) {
  return all_aligned(16, piece.gradient, piece.weight) && all_aligned(4, piece.state[State]...);
}

/// Updates a piece, by all threads of the thread block.
template <class Update, class Narrow, std::size_t... State>
__device__ __forceinline__ void update_int8_moments(const GradientScale& scale,
                                                    const typename Update::Constants& c,
                                                    const UpdatePiece& piece,
                                                    const MomentMaps<Update>& maps,
                                                    std::index_sequence<State...> states) {
  const NarrowWeights<Narrow> follow{piece.narrow};
  const bool aligned =
      chunks_aligned<Update>(piece, states) && all_aligned(kNarrowQuad<Narrow>, piece.narrow);
  unsigned begin = 0;
  for (; aligned && begin + kInt8Chunk <= piece.count; begin += kInt8Chunk) {
    update_int8_chunk<true, Update>(scale, c, piece, begin, maps, follow, states);
  }
  for (; begin < piece.count; begin += kInt8Chunk) {
    update_int8_chunk<false, Update>(scale, c, piece, begin, maps, follow, states);
  }
}

}  // namespace zeropp::optim::cuda_ops

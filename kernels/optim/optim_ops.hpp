// The kernels around an optimizer's step (update.hpp): one table per back end, chosen by the
// Device. All run on the given stream, allocate nothing and throw nothing. Counts are in elements;
// arrays of one call do not overlap unless said.
//
// An operation over all parameters takes a table of pieces in the back end's memory, which is made
// once (lib/device/table.hpp): one launch serves any number of tensors, large and tiny. A GPU gives
// each piece a thread block, so that long arrays are cut, with for_each_piece(), to keep it busy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/core/stream.hpp"

namespace zeropp::optim {

/// sum_of_squares adds up in blocks of so many values.
inline constexpr std::size_t kNormBlock = 1024;
inline constexpr std::size_t kNormLanes = 32;

constexpr std::size_t norm_blocks(std::size_t n) { return (n + kNormBlock - 1) / kNormBlock; }

/// Doubles that an array of n values needs for its block sums of every level.
constexpr std::size_t norm_scratch(std::size_t n) {
  std::size_t total = 0;
  std::size_t blocks = norm_blocks(n);
  for (; blocks > 1; blocks = norm_blocks(blocks)) total += blocks;
  return total + blocks;
}

/// Length of the pieces of a norm; see kUpdatePiece.
inline constexpr std::size_t kNormPiece = 16 * kNormBlock;

/// body(first element, elements) for consecutive pieces of [0, n), of `length` but for the last.
template <class Body>
void for_each_piece(std::size_t n, std::size_t length, const Body& body) {
  for (std::size_t first = 0; first < n; first += length) body(first, std::min(length, n - first));
}

/// Whole blocks of kNormBlock values of one array; its last piece may end within a block.
struct NormPiece {
  const float* values;
  double* sums;         ///< of the piece's blocks: norm_blocks(count)
  std::uint32_t count;  ///< at most 2^31 - 1
};

/// An array that was cut into pieces.
struct NormArray {
  double* sums;        ///< norm_scratch(n): the pieces' sums in order, then the higher levels'
  std::size_t blocks;  ///< norm_blocks(n); n may be 0
  double* sum;         ///< the result
};

struct OptimOps {
  /// destination[i] += source[i], fp32.
  void (*add)(std::size_t n, const float* source, float* destination, StreamHandle);
  /// Makes fp32 gradients overflow as a narrower dtype would have: in `rows` rows of `count`
  /// values, `stride` apart, each value whose magnitude is above `limit` becomes an infinity of its
  /// sign. NaN stays. In place.
  void (*overflow)(float limit, std::size_t rows, std::size_t stride, std::size_t count,
                   float* values, StreamHandle);
  /// Sums the squares of every array: *sum = sum of (factor * value)^2, the product rounded to
  /// fp32, the rest in fp64. The order is fixed, so that every back end gives the same bits: blocks
  /// of 1024 values; in a block, lane l of 32 adds values l, l + 32, ...; lanes are combined by
  /// halves; the block sums are added up in the same way, until one is left. NaN and Inf carry
  /// through. Pieces and arrays may come in any order.
  void (*sum_of_squares)(float factor, std::span<const NormPiece>, std::span<const NormArray>,
                         StreamHandle);
  /// weights[i] = constant + scale * standard_normal(seed, tensor, first + i).
  void (*initialize)(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                     float constant, float scale, float* weights, StreamHandle);
};

/// The host's table (Kokkos).
const OptimOps& host_optim_ops();
/// The GPU's table; null in a build without CUDA.
const OptimOps* cuda_optim_ops();

}  // namespace zeropp::optim

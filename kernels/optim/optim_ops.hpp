// The optimizer's kernels: one table per back end, chosen by the Device. All run on the given
// stream, allocate nothing and throw nothing. Counts are in elements; arrays of one call do not
// overlap unless said.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"
#include "kernels/optim/adamw_math.hpp"
#include "kernels/optim/options.hpp"

namespace zeropp::optim {

/// sum_of_squares adds up in blocks of so many values.
inline constexpr std::size_t kNormBlock = 1024;
inline constexpr std::size_t kNormLanes = 32;

constexpr std::size_t norm_blocks(std::size_t n) { return (n + kNormBlock - 1) / kNormBlock; }

/// Doubles of scratch that sum_of_squares needs: the block sums of every level.
constexpr std::size_t norm_scratch(std::size_t n) {
  std::size_t total = 0;
  for (std::size_t blocks = norm_blocks(n); blocks > 1; blocks = norm_blocks(blocks)) {
    total += blocks;
  }
  return total;
}

struct OptimOps {
  /// AdamW on n elements; `decay`: weight decay applies to them. `shard`: n 16-bit weights that
  /// follow the fp32 ones, rounded to nearest and saturating, or an empty view.
  void (*adamw)(const AdamWConstants&, bool decay, std::size_t n, const float* gradient,
                float* weight, float* m, float* v, View shard, StreamHandle);
  /// destination[i] += source[i], fp32.
  void (*add)(std::size_t n, const float* source, float* destination, StreamHandle);
  /// values[i] *= factor, fp32.
  void (*scale)(std::size_t n, float factor, float* values, StreamHandle);
  /// *sum = sum of squares in fp64. The order is fixed, so that every back end gives the same bits:
  /// blocks of 1024 values; in a block, lane l of 32 adds values l, l + 32, ...; lanes are combined
  /// by halves; the block sums are added up in the same way, until one is left. NaN and Inf carry
  /// through. `scratch` (norm_scratch(n) doubles) and `sum` lie in the back end's memory.
  void (*sum_of_squares)(std::size_t n, const float* values, double* scratch, double* sum,
                         StreamHandle);
  /// weights[i] = constant + scale * standard_normal(seed, tensor, first + i).
  void (*initialize)(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                     float constant, float scale, float* weights, StreamHandle);
};

/// The host's table (Kokkos).
const OptimOps& host_optim_ops();
/// The GPU's table; null in a build without CUDA.
const OptimOps* cuda_optim_ops();

/// Constants of step t (1, 2, ...), computed in fp64.
AdamWConstants adamw_constants(const AdamWOptions& options, std::uint64_t t, double gradient_scale);

}  // namespace zeropp::optim

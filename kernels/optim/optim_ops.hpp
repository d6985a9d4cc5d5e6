// The optimizer's kernels: one table per back end, chosen by the Device. All run on the given
// stream, allocate nothing and throw nothing. Counts are in elements; arrays of one call do not
// overlap unless said.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/stream.hpp"
#include "kernels/optim/adamw_math.hpp"
#include "kernels/optim/options.hpp"

namespace zeropp::optim {

struct OptimOps {
  /// AdamW on n elements; `decay`: weight decay applies to them.
  void (*adamw)(const AdamWConstants&, bool decay, std::size_t n, const float* gradient,
                float* weight, float* m, float* v, StreamHandle);
  /// destination[i] += source[i], fp32.
  void (*add)(std::size_t n, const float* source, float* destination, StreamHandle);
  /// values[i] *= factor, fp32.
  void (*scale)(std::size_t n, float factor, float* values, StreamHandle);
  /// *sum = sum of squares in fp64. The order is fixed, so that every back end gives the same bits:
  /// blocks of 1024 values; in a block, lane l of 32 adds values l, l + 32, ...; lanes are combined
  /// by halves; block sums are added in order. NaN and Inf carry through. `sum` is host-visible
  /// when the stream is done.
  void (*sum_of_squares)(std::size_t n, const float* values, double* sum, StreamHandle);
  /// weights[i] = constant + scale * standard_normal(seed, tensor, first + i).
  void (*initialize)(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                     float constant, float scale, float* weights, StreamHandle);
};

/// The host's table (Kokkos).
const OptimOps& host_optim_ops();

/// Constants of step t (1, 2, ...), computed in fp64.
AdamWConstants adamw_constants(const AdamWOptions& options, std::uint64_t t, double gradient_scale);

}  // namespace zeropp::optim

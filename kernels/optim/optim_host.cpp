#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/host_for.hpp"
#include "kernels/optim/optim_ops.hpp"

namespace zeropp::optim {

namespace {

void add(std::size_t n, const float* source, float* destination, StreamHandle) {
  for_blocks("add", n, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) destination[i] += source[i];
  });
}

/// The sum of term(0 .. n) of one block, in the order that OptimOps::sum_of_squares names.
template <class Term>
double block_sum(std::size_t n, const Term& term) {
  std::array<double, kNormLanes> lanes{};
  std::size_t i = 0;
  for (; i + kNormLanes <= n; i += kNormLanes) {
    for (std::size_t lane = 0; lane < kNormLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (; i < n; ++i) lanes[i % kNormLanes] += term(i);
  for (std::size_t half = kNormLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// Block sums of `n` terms, one after the other, into `sums`.
template <class Term>
void block_sums(std::size_t n, const Term& term, double* sums) {
  for (std::size_t block = 0; block < norm_blocks(n); ++block) {
    const std::size_t first = block * kNormBlock;
    sums[block] =
        block_sum(std::min(kNormBlock, n - first), [&](std::size_t i) { return term(first + i); });
  }
}

/// From block sums to the array's sum, level by level.
void add_block_sums(const NormArray& array) {
  const double* terms = array.sums;
  double* sums = array.sums + array.blocks;
  for (std::size_t count = array.blocks; count > 1; count = norm_blocks(count)) {
    block_sums(
        count, [=](std::size_t i) { return terms[i]; }, sums);
    terms = sums;
    sums += norm_blocks(count);
  }
  *array.sum = array.blocks == 0 ? 0.0 : *terms;
}

void sum_of_squares(float factor, std::span<const NormPiece> pieces,
                    std::span<const NormArray> arrays, StreamHandle) {
  host_for("sum_of_squares", pieces.size(), [=](std::size_t i) {
    const float* const values = pieces[i].values;
    block_sums(
        pieces[i].count,
        [=](std::size_t at) {
          const double x = values[at] * factor;  // rounded to fp32
          return x * x;                          // exact in fp64
        },
        pieces[i].sums);
  });
  host_for("add_block_sums", arrays.size(), [=](std::size_t i) { add_block_sums(arrays[i]); });
}

void initialize(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                float constant, float scale_factor, float* weights, StreamHandle) {
  for_blocks("initialize", n, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      weights[i] = scale_factor == 0.0F
                       ? constant
                       : fmaf(scale_factor, standard_normal(seed, tensor, first + i), constant);
    }
  });
}

}  // namespace

const OptimOps& host_optim_ops() {
  static constexpr OptimOps ops{add, sum_of_squares, initialize};
  return ops;
}

}  // namespace zeropp::optim

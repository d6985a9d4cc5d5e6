#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/host_for.hpp"
#include "kernels/optim/optim_ops.hpp"

namespace zeropp::optim {

namespace {

void adamw(const AdamWConstants& c, bool decay, std::size_t n, const float* gradient, float* weight,
           float* m, float* v, View shard, StreamHandle) {
  const float decay_factor = decay ? c.decay_factor : 1.0F;
  with_type(shard.dtype, [&](auto* type) {
    using Narrow = std::remove_pointer_t<decltype(type)>;
    auto* const narrow = shard.count == 0 ? nullptr : shard.as<Narrow>();
    for_blocks("adamw", n, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        adamw_update(gradient[i], decay_factor, c, weight[i], m[i], v[i]);
      }
      if (narrow == nullptr) return;
      for (std::size_t i = begin; i < end; ++i) narrow[i] = saturating_cast<Narrow>(weight[i]);
    });
  });
}

void add(std::size_t n, const float* source, float* destination, StreamHandle) {
  for_blocks("add", n, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) destination[i] += source[i];
  });
}

void scale(std::size_t n, float factor, float* values, StreamHandle) {
  for_blocks("scale", n, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[i] *= factor;
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

void sum_of_squares(std::size_t n, const float* values, double* scratch, double* sum,
                    StreamHandle) {
  if (n == 0) {
    *sum = 0;
    return;
  }
  std::size_t left = norm_blocks(n);
  double* sums = left > 1 ? scratch : sum;
  block_sums(
      n,
      [=](std::size_t i) {
        const double x = values[i];
        return x * x;  // exact in fp64
      },
      sums);
  while (left > 1) {
    const double* const terms = sums;
    const std::size_t count = left;
    left = norm_blocks(count);
    sums = left > 1 ? sums + count : sum;
    block_sums(
        count, [=](std::size_t i) { return terms[i]; }, sums);
  }
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
  static constexpr OptimOps ops{adamw, add, scale, sum_of_squares, initialize};
  return ops;
}

AdamWConstants adamw_constants(const AdamWOptions& options, std::uint64_t t,
                               double gradient_scale) {
  const auto step = static_cast<double>(t);
  return {
      .learning_rate = static_cast<float>(options.learning_rate),
      .beta1 = static_cast<float>(options.beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - options.beta1),
      .beta2 = static_cast<float>(options.beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - options.beta2),
      .inverse_bias1 = static_cast<float>(1.0 / (1.0 - std::pow(options.beta1, step))),
      .inverse_sqrt_bias2 =
          static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, step))),
      .epsilon = static_cast<float>(options.epsilon),
      .decay_factor = static_cast<float>(1.0 - options.learning_rate * options.weight_decay),
      .gradient_scale = static_cast<float>(gradient_scale),
  };
}

}  // namespace zeropp::optim

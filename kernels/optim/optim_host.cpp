#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/host_for.hpp"
#include "kernels/optim/optim_ops.hpp"

namespace zeropp::optim {

namespace {

constexpr std::size_t kBlock = 1024;  // of sum_of_squares
constexpr std::size_t kLanes = 32;

void adamw(const AdamWConstants& c, bool decay, std::size_t n, const float* gradient, float* weight,
           float* m, float* v, StreamHandle) {
  const float decay_factor = decay ? c.decay_factor : 1.0F;
  for_blocks("adamw", n, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      adamw_update(gradient[i], decay_factor, c, weight[i], m[i], v[i]);
    }
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

double block_sum_of_squares(const float* values, std::size_t n) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      lanes[lane] += x * x;  // exact product: the same as fma
    }
  }
  for (; i < n; ++i) lanes[i % kLanes] += static_cast<double>(values[i]) * values[i];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

void sum_of_squares(std::size_t n, const float* values, double* sum, StreamHandle) {
  double total = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    total += block_sum_of_squares(values + begin, std::min(kBlock, n - begin));
  }
  *sum = total;
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

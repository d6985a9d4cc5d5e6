// AdamW with bias correction: Loshchilov and Hutter, arXiv 1711.05101.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/optim/learning_rate.hpp"
#include "kernels/optim/update.hpp"

namespace zeropp::optim::rule::adamw {

struct Update {
  static constexpr std::size_t states = 2;  ///< the gradient's moments, m and v
  static constexpr std::array<bool, states> is_signed{true, false};
  static constexpr float no_decay = 1.0F;

  struct Constants {
    float learning_rate;
    float beta1;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
    float inverse_bias1;       ///< 1 / (1 - beta1^t)
    float inverse_sqrt_bias2;  ///< 1 / sqrt(1 - beta2^t)
    float epsilon;
    float decay;  ///< 1 - learning_rate * weight_decay: multiplies the weight
  };

  static Constants constants(const Options& options, std::uint64_t t) {
    const double rate = learning_rate(options, t);
    const auto step = static_cast<double>(t);
    return {
        .learning_rate = static_cast<float>(rate),
        .beta1 = static_cast<float>(options.beta1),
        .one_minus_beta1 = static_cast<float>(1.0 - options.beta1),
        .beta2 = static_cast<float>(options.beta2),
        .one_minus_beta2 = static_cast<float>(1.0 - options.beta2),
        .inverse_bias1 = static_cast<float>(1.0 / (1.0 - std::pow(options.beta1, step))),
        .inverse_sqrt_bias2 =
            static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, step))),
        .epsilon = static_cast<float>(options.epsilon),
        .decay = static_cast<float>(1.0 - rate * options.weight_decay),
    };
  }

  ZEROPP_HD static void apply(float g, float decay, const Constants& c, float& weight, float& m,
                              float& v) {
    m = fmaf(c.beta1, m, c.one_minus_beta1 * g);
    v = fmaf(c.beta2, v, c.one_minus_beta2 * (g * g));
    const float denominator = fmaf(sqrtf(v), c.inverse_sqrt_bias2, c.epsilon);
    const float update = (m * c.inverse_bias1) / denominator;
    weight = fmaf(-c.learning_rate, update, weight * decay);
  }
};

struct Rule {
  static constexpr std::string_view name = "AdamW";
  static constexpr std::string_view summary = "Adam with decoupled weight decay";
  static constexpr std::array<std::string_view, 4> parameters{"lr", "betas", "eps", "weight_decay"};

  template <class Body>
  static void with_update(const Options& /*options*/, const Body& body) {
    body(Update{});
  }
};

}  // namespace zeropp::optim::rule::adamw

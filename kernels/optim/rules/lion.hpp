// Lion: the sign of a mix of the gradient and its moment, with decoupled weight decay. Chen et al.,
// arXiv 2302.06675. One array of state, where AdamW has two.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/optim/learning_rate.hpp"
#include "kernels/optim/update.hpp"

namespace zeropp::optim::rule::lion {

struct Update {
  static constexpr std::size_t states = 1;
  static constexpr std::array<bool, states> is_signed{true};
  static constexpr float no_decay = 1.0F;

  struct Constants {
    float learning_rate;
    float beta1;  ///< share of the moment in the update
    float one_minus_beta1;
    float beta2;  ///< share of it in the next moment
    float one_minus_beta2;
    float decay;  ///< 1 - learning_rate * weight_decay: multiplies the weight
  };

  static Constants constants(const Options& options, std::uint64_t t) {
    const double rate = learning_rate(options, t);
    return {
        .learning_rate = static_cast<float>(rate),
        .beta1 = static_cast<float>(options.beta1),
        .one_minus_beta1 = static_cast<float>(1.0 - options.beta1),
        .beta2 = static_cast<float>(options.beta2),
        .one_minus_beta2 = static_cast<float>(1.0 - options.beta2),
        .decay = static_cast<float>(1.0 - rate * options.weight_decay),
    };
  }

  ZEROPP_HD static void apply(float g, float decay, const Constants& c, float& weight, float& m) {
    const float mix = fmaf(c.beta1, m, c.one_minus_beta1 * g);
    // Zero and NaN are their own sign: nothing that is not finite disappears.
    const float sign = mix > 0.0F ? 1.0F : mix < 0.0F ? -1.0F : mix;
    weight = fmaf(-c.learning_rate, sign, weight * decay);
    m = fmaf(c.beta2, m, c.one_minus_beta2 * g);
  }
};

struct Rule {
  static constexpr std::string_view name = "Lion";
  static constexpr std::string_view summary = "the sign of a moment, decoupled weight decay";
  static constexpr std::array<std::string_view, 3> parameters{"lr", "betas", "weight_decay"};

  template <class Body>
  static void with_update(const Options& /*options*/, const Body& body) {
    body(Update{});
  }
};

}  // namespace zeropp::optim::rule::lion

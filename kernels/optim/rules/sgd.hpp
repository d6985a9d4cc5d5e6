// Stochastic gradient descent, plain (which keeps nothing) or with a momentum, Nesterov's if asked
// for. As PyTorch has it: weight decay is part of the gradient, and the momentum is a sum
// (b <- momentum b + g) that the learning rate multiplies.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/optim/learning_rate.hpp"
#include "kernels/optim/update.hpp"

namespace zeropp::optim::rule::sgd {

struct Constants {
  float learning_rate;
  float momentum;
  float ahead;  ///< share of the gradient, and
  float sum;    ///< of the momentum's sum, in what the weight moves by
  float decay;  ///< of the weight that is added to the gradient
};

struct Plain {
  static constexpr std::size_t states = 0;
  static constexpr std::array<bool, states> is_signed{};
  static constexpr float no_decay = 0.0F;
  using Constants = sgd::Constants;

  static Constants constants(const Options& options, std::uint64_t t) {
    const double rate = learning_rate(options, t);
    const bool ahead = options.nesterov;
    return {.learning_rate = static_cast<float>(rate),
            .momentum = static_cast<float>(options.momentum),
            .ahead = ahead ? 1.0F : 0.0F,
            .sum = ahead ? static_cast<float>(options.momentum) : 1.0F,
            .decay = static_cast<float>(options.weight_decay)};
  }

  ZEROPP_HD static void apply(float g, float decay, const Constants& c, float& weight) {
    weight = fmaf(-c.learning_rate, fmaf(decay, weight, g), weight);
  }
};

struct Momentum {
  static constexpr std::size_t states = 1;
  static constexpr std::array<bool, states> is_signed{true};
  static constexpr float no_decay = Plain::no_decay;
  using Constants = sgd::Constants;

  static Constants constants(const Options& options, std::uint64_t t) {
    return Plain::constants(options, t);
  }

  ZEROPP_HD static void apply(float g, float decay, const Constants& c, float& weight, float& b) {
    const float decayed = fmaf(decay, weight, g);
    b = fmaf(c.momentum, b, decayed);
    weight = fmaf(-c.learning_rate, fmaf(c.sum, b, c.ahead * decayed), weight);
  }
};

struct Rule {
  static constexpr std::string_view name = "SGD";
  static constexpr std::string_view summary = "gradient descent, with momentum if asked for";
  static constexpr std::array<std::string_view, 4> parameters{"lr", "weight_decay", "momentum",
                                                              "nesterov"};

  template <class Body>
  static void with_update(const Options& options, const Body& body) {
    if (options.momentum > 0) {
      body(Momentum{});
    } else {
      body(Plain{});
    }
  }
};

}  // namespace zeropp::optim::rule::sgd

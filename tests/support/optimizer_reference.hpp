// The optimizers in double precision, a parameter at a time, as PyTorch documents torch.optim.Adam,
// AdamW and SGD, and as arXiv 2302.06675 has Lion: what kernels/optim/rules is compared with.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/optim/options.hpp"

namespace zeropp::test {

/// A weight with what the optimizer keeps for it.
struct ReferenceParameter {
  double weight = 0;
  std::array<double, 2> state{};

  /// Takes step t (1, 2, ...) with the clipped mean gradient g.
  void step(const optim::Options& o, std::uint64_t t, bool decays, double g) {
    const double lambda = decays ? o.weight_decay : 0.0;
    if (o.type == "AdamW") {
      weight -= o.learning_rate * lambda * weight;
      adam(o, t, g);
    } else if (o.type == "Adam") {
      adam(o, t, g + lambda * weight);
    } else if (o.type == "SGD") {
      sgd(o, t, g + lambda * weight);
    } else if (o.type == "Lion") {
      lion(o, lambda, g);
    } else {
      FAIL() << "write the formula of " << o.type << " here";
    }
  }

 private:
  void adam(const optim::Options& o, std::uint64_t t, double g) {
    const auto step = static_cast<double>(t);
    state[0] = o.beta1 * state[0] + (1 - o.beta1) * g;
    state[1] = o.beta2 * state[1] + (1 - o.beta2) * g * g;
    const double m_hat = state[0] / (1 - std::pow(o.beta1, step));
    const double v_hat = state[1] / (1 - std::pow(o.beta2, step));
    weight -= o.learning_rate * m_hat / (std::sqrt(v_hat) + o.epsilon);
  }

  void sgd(const optim::Options& o, std::uint64_t t, double g) {
    if (o.momentum == 0) {
      weight -= o.learning_rate * g;
      return;
    }
    state[0] = t == 1 ? g : o.momentum * state[0] + g;
    weight -= o.learning_rate * (o.nesterov ? g + o.momentum * state[0] : state[0]);
  }

  void lion(const optim::Options& o, double lambda, double g) {
    const double c = o.beta1 * state[0] + (1 - o.beta1) * g;
    const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    weight -= o.learning_rate * (sign + lambda * weight);
    state[0] = o.beta2 * state[0] + (1 - o.beta2) * g;
  }
};

/// Options of every optimizer, with and without what else it reads.
inline std::vector<optim::Options> optimizer_cases() {
  std::vector<optim::Options> cases;
  for (const std::string& type : optim::types()) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool nesterov : {false, true}) {
        if (momentum > 0 && !optim::reads(type, "momentum")) continue;
        if (nesterov && (momentum == 0 || !optim::reads(type, "nesterov"))) continue;
        cases.push_back({.type = type,
                         .learning_rate = 0.01,
                         .beta2 = 0.99,
                         .weight_decay = 0.1,
                         .momentum = momentum,
                         .nesterov = nesterov});
      }
    }
  }
  return cases;
}

/// "SGD, momentum 0.9, nesterov".
inline std::string describe(const optim::Options& o) {
  return o.type + (o.momentum > 0 ? ", momentum " + std::to_string(o.momentum) : "") +
         (o.nesterov ? ", nesterov" : "");
}

}  // namespace zeropp::test

// One AdamW update of one parameter, shared by the back ends: every product and sum is spelled out,
// so that host and device round alike. Loshchilov and Hutter, arXiv 1711.05101, with bias
// correction.
#pragma once

#include <cmath>

#include "kernels/core/macros.hpp"

namespace zeropp::optim {

/// The step's constants in fp32, computed on the host from the options and the step number.
struct AdamWConstants {
  float learning_rate;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float inverse_bias1;       ///< 1 / (1 - beta1^t)
  float inverse_sqrt_bias2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float decay_factor;  ///< 1 - learning_rate * weight_decay: multiplies decayed weights
  float mean;          ///< 1 / (ranks * micro-steps): makes a sum of gradients their mean
  float clip;          ///< clipping coefficient, applied to the mean
};

/// weight, m, v <- one step with the mean of the gradients whose sum is given.
ZEROPP_HD void adamw_update(float gradient_sum, float decay_factor, const AdamWConstants& c,
                            float& weight, float& m, float& v) {
  const float g = (gradient_sum * c.mean) * c.clip;  // two roundings: the norm is of the mean
  m = fmaf(c.beta1, m, c.one_minus_beta1 * g);
  v = fmaf(c.beta2, v, c.one_minus_beta2 * (g * g));
  const float denominator = fmaf(sqrtf(v), c.inverse_sqrt_bias2, c.epsilon);
  const float update = (m * c.inverse_bias1) / denominator;
  weight = fmaf(-c.learning_rate, update, weight * decay_factor);
}

}  // namespace zeropp::optim

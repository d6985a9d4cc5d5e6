// One AdamW update of one parameter, shared by the back ends: every product and sum is spelled out,
// so that host and device round alike. Loshchilov and Hutter, arXiv 1711.05101, with bias
// correction.
#pragma once

#include <cmath>

#include "kernels/core/macros.hpp"

namespace zeropp::optim {

/// The step's constants in fp32, computed once on the host from the options and the step number.
struct AdamWConstants {
  float learning_rate;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float inverse_bias1;       ///< 1 / (1 - beta1^t)
  float inverse_sqrt_bias2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float decay_factor;    ///< 1 - learning_rate * weight_decay: multiplies decayed weights
  float gradient_scale;  ///< clipping coefficient, applied to the mean gradient
};

/// weight, m, v <- one step with the mean gradient.
ZEROPP_HD void adamw_update(float gradient, float decay_factor, const AdamWConstants& c,
                            float& weight, float& m, float& v) {
  const float g = gradient * c.gradient_scale;
  m = fmaf(c.beta1, m, c.one_minus_beta1 * g);
  v = fmaf(c.beta2, v, c.one_minus_beta2 * (g * g));
  const float denominator = fmaf(sqrtf(v), c.inverse_sqrt_bias2, c.epsilon);
  const float update = (m * c.inverse_bias1) / denominator;
  weight = fmaf(-c.learning_rate, update, weight * decay_factor);
}

}  // namespace zeropp::optim

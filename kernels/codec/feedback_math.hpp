// The scalar steps of error feedback (feedback.hpp), the same on every back end.
#pragma once

#include "kernels/codec/arithmetic.hpp"
#include "kernels/core/half.hpp"

namespace zeropp::codec {

/// value + error.
ZEROPP_HD float carry_error(float value, float error) {
  return saturating_cast<float>(add(value, error));
}

/// beta * error + fresh * (carried - decoded), where fresh is 1 - beta; `error` where that is not
/// finite, so that values which are not finite leave no trace.
ZEROPP_HD float keep_error(float beta, float fresh, float error, float carried, float decoded) {
  const float lost = add(carried, -decoded);
  const float kept = fused_multiply_add(beta, error, multiply(fresh, lost));
  return is_finite_bits(bits_of(kept)) ? kept : error;
}

/// value * factor.
template <class T>
ZEROPP_HD T scale_error(T value, float factor) {
  return saturating_cast<T>(multiply(to_float(value), factor));
}

}  // namespace zeropp::codec

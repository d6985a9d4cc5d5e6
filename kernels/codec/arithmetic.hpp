// The fp32 operations of the codecs, each rounded once to nearest even: on CUDA as intrinsics that
// no compiler flag can contract or approximate, on the host as plain operators (the build forbids
// contraction).
#pragma once

#include <cmath>

#include "kernels/core/macros.hpp"

namespace zeropp::codec {

ZEROPP_HD float multiply(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

ZEROPP_HD float add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

/// a / b.
ZEROPP_HD float divide(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

/// 1 / a.
ZEROPP_HD float invert(float a) {
#ifdef __CUDA_ARCH__
  return __frcp_rn(a);
#else
  return 1.0F / a;
#endif
}

/// a * b + c, rounded once.
ZEROPP_HD float fused_multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

/// a / kDivisor, rounded once, for a finite a >= 0 and an odd divisor under 256: three operations
/// instead of a device's general division. The correction leaves an error of far less than
/// 1 / (2 kDivisor) last places, and no quotient lies nearer to the middle between two values.
template <int kDivisor>
ZEROPP_HD float divide_by(float a) {
  static_assert(kDivisor > 0 && kDivisor % 2 == 1 && kDivisor < 256);
  constexpr auto divisor = static_cast<float>(kDivisor);
  constexpr float inverse = 1.0F / divisor;
  const float near = multiply(a, inverse);
  return fused_multiply_add(fused_multiply_add(-divisor, near, a), inverse, near);
}

}  // namespace zeropp::codec

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

ZEROPP_HD float divide(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
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

}  // namespace zeropp::codec

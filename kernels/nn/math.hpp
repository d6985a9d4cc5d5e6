// Elementary functions of the network's kernels, shared by all back ends. They are straight-line
// code without calls or branches, so that the host compiler turns a loop over them into vector
// instructions without fast-math; relative error below 2e-7 (tests/unit/nn_math.cpp).
#pragma once

#include <cmath>

#include "kernels/core/half.hpp"
#include "kernels/core/macros.hpp"

namespace zeropp::nn {

/// e^x; outside [-87.3, 88.3] the value at the nearer end (no subnormals, no infinity); NaN stays
/// NaN.
/// x = n ln 2 + r with |r| <= ln 2 / 2, then the polynomial of Cephes' expf (S. Moshier) in r.
ZEROPP_HD float fast_exp(float x) {
  constexpr float kLog2e = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;  // high + low = ln 2; the high part has few bits
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.3F ? -87.3F : x;
  x = x > 88.3F ? 88.3F : x;
  const float shifted = std::fma(x, kLog2e, kRound);
  const float n = shifted - kRound;
  const float r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));
  float p = 1.9875691500e-4F;
  p = std::fma(p, r, 1.3981999507e-3F);
  p = std::fma(p, r, 8.3334519073e-3F);
  p = std::fma(p, r, 4.1665795894e-2F);
  p = std::fma(p, r, 1.6666665459e-1F);
  p = std::fma(p, r, 5.0000001201e-1F);
  p = std::fma(p, r * r, r + 1.0F);
  // The low bits of `shifted` hold n: moved into the exponent they make 2^n.
  const float power = float_of((bits_of(shifted) << 23U) + 0x3F800000U);
  return p * power;
}

/// tanh-GELU as GPT-2 has it, gelu(x) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
/// (Hendrycks and Gimpel, arXiv 1606.08415), with (1 + tanh(u)) / 2 = 1 / (1 + e^(-2u)).
struct Gelu {
  static constexpr float kTwoSqrt2OverPi = 1.59576912160573071F;  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.044715F;

  /// e^(-2u)
  ZEROPP_HD static float decay(float x) {
    return fast_exp(-kTwoSqrt2OverPi * x * std::fma(kCubic * x, x, 1.0F));
  }
  ZEROPP_HD static float value(float x) { return x * (1.0F / (1.0F + decay(x))); }
  /// With g = 1 / (1 + e^(-2u)): g + x g (1 - g) 2 du/dx, where 1 - g = e^(-2u) g has no
  /// cancellation.
  ZEROPP_HD static float derivative(float x) {
    const float e = decay(x);
    const float g = 1.0F / (1.0F + e);
    const float twice_du = kTwoSqrt2OverPi * std::fma(3.0F * kCubic * x, x, 1.0F);
    return std::fma(x * twice_du, g * (e * g), g);
  }
};

/// silu(x) = x s, s = 1 / (1 + e^-x) (Elfwing et al., arXiv 1702.03118).
struct Silu {
  ZEROPP_HD static float value(float x) { return x * (1.0F / (1.0F + fast_exp(-x))); }
  /// s + x s (1 - s), where 1 - s = e^-x s has no cancellation.
  ZEROPP_HD static float derivative(float x) {
    const float e = fast_exp(-x);
    const float s = 1.0F / (1.0F + e);
    return std::fma(x, s * (e * s), s);
  }
};

}  // namespace zeropp::nn

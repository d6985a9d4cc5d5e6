// Transforms that a rule applies to the values of a group before it quantizes them. Both are linear
// and their own inverse, so that they commute with sums over images.
#pragma once

#include "kernels/codec/arithmetic.hpp"
#include "kernels/codec/planes.hpp"
#include "kernels/codec/unroll.hpp"

namespace zeropp::codec {

struct Identity {
  static constexpr bool rotates = false;
  ZEROPP_HD static void apply(float (&)[kGroup]) {}
};

/// The orthonormal 32-point Hadamard transform (+had32): an outlier is spread over its group.
/// Values are multiplied by fp32(1 / sqrt(32)), then added in butterflies of distance 1, 2, 4,
/// 8, 16.
struct Hadamard32 {
  static constexpr bool rotates = true;
  ZEROPP_HD static void apply(float (&values)[kGroup]) {
    constexpr float kNorm = 0.17677669529663687F;
    ZEROPP_UNROLL for (float& value : values) value = multiply(value, kNorm);
    butterflies<1>(values);
    butterflies<2>(values);
    butterflies<4>(values);
    butterflies<8>(values);
    butterflies<16>(values);
  }

 private:
  template <int kDistance>
  ZEROPP_HD static void butterflies(float (&values)[kGroup]) {
    ZEROPP_UNROLL for (int pair = 0; pair < kGroup / 2; ++pair) {
      const int low = pair / kDistance * (2 * kDistance) + pair % kDistance;
      const float a = values[low];
      const float b = values[low + kDistance];
      values[low] = add(a, b);
      values[low + kDistance] = add(a, -b);
    }
  }
};

}  // namespace zeropp::codec

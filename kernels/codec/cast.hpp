// Formats that carry every value by itself, converted to `W`: no scale, no block. Finite values
// saturate at the largest finite value of W, infinities stay, NaN is canonical; values that are W
// in memory already are copied bit for bit.
#pragma once

#include <cstddef>

namespace zeropp::codec {

template <class W>
struct Cast {
  using Wire = W;
  static constexpr std::size_t bits = 8 * sizeof(W);

 protected:
  /// Round to nearest with a relative error of half an ulp, an absolute one of half the smallest
  /// subnormal, and saturation at `largest`.
  static constexpr double rounding_bound(double value, double half_ulp, double half_subnormal,
                                         double largest) {
    const double magnitude = value < 0 ? -value : value;
    double bound = magnitude * half_ulp;
    if (bound < half_subnormal) bound = half_subnormal;
    return bound < magnitude - largest ? magnitude - largest : bound;
  }
};

}  // namespace zeropp::codec

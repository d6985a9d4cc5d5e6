// A copy of values that follows them by their differences: what is encoded is values - copy, and
// what it decodes to is added to the copy. An element of the copy that is not finite counts as
// zero, so that the copy recovers as soon as the values have. The same bits on every back end.
#pragma once

#include "kernels/core/half.hpp"
#include "kernels/core/macros.hpp"

namespace zeropp {

/// An element of a copy as differences are taken from it and added to it.
ZEROPP_HD float base_of(float copy) { return is_finite_bits(bits_of(copy)) ? copy : 0.0F; }

/// `copy` plus a difference, rounded to nearest even once, saturating.
template <class Copy>
ZEROPP_HD Copy with_difference(Copy copy, float difference) {
  return saturating_cast<Copy>(base_of(to_float(copy)) + difference);
}

/// The difference of a value to its copy.
template <class Difference>
ZEROPP_HD Difference difference_to(float value, float copy) {
  return saturating_cast<Difference>(value - base_of(copy));
}

}  // namespace zeropp

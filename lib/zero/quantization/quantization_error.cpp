#include "lib/zero/quantization/quantization_error.hpp"

#include <algorithm>
#include <cmath>

namespace zeropp::zero {

namespace {

/// Quotient of two sums; `equal` where both are zero.
double ratio(double numerator, double denominator, double equal) {
  return numerator == 0 && denominator == 0 ? equal : numerator / denominator;
}

}  // namespace

void ErrorSums::add(double exact_value, double coded_value) {
  const double off = coded_value - exact_value;
  exact += exact_value * exact_value;
  coded += coded_value * coded_value;
  product += exact_value * coded_value;
  difference += off * off;
  largest_difference = std::max(largest_difference, std::abs(off));
  largest_exact = std::max(largest_exact, std::abs(exact_value));
}

ErrorMeasures measures_of(const ErrorSums& sums) {
  const double norms = std::sqrt(sums.exact * sums.coded);
  const bool one_is_zero = (sums.exact == 0) != (sums.coded == 0);
  return {.relative_l2 = ratio(std::sqrt(sums.difference), std::sqrt(sums.exact), 0),
          .cosine = one_is_zero ? 0 : ratio(sums.product, norms, 1),
          .largest = ratio(sums.largest_difference, sums.largest_exact, 0),
          .norm_ratio = ratio(std::sqrt(sums.coded), std::sqrt(sums.exact), 1)};
}

}  // namespace zeropp::zero

// Errors of values against what they should be: the sums that two arrays give, and the measures
// that follow from them. Pure arithmetic on host memory, in double precision.
#pragma once

namespace zeropp::zero {

/// Sums over elements. Over ranks the first four are added, of the others the largest is taken.
struct ErrorSums {
  double exact = 0;       ///< of squares
  double coded = 0;       ///< of squares
  double product = 0;     ///< of exact * coded
  double difference = 0;  ///< of squares of coded - exact
  double largest_difference = 0;
  double largest_exact = 0;

  void add(double exact_value, double coded_value);
};

/// Measures of the difference between two arrays; the defaults are those of equal arrays, of two
/// arrays of zeros too.
struct ErrorMeasures {
  double relative_l2 = 0;  ///< norm of the difference / norm of the exact values
  double cosine = 1;       ///< of the angle between both
  double largest = 0;      ///< largest |difference| / largest |exact value|
  double norm_ratio = 1;   ///< norm of the coded values / norm of the exact values
};

/// Measures of sums. Where the exact values are all zero and the coded ones are not, they are Inf,
/// 0, Inf, Inf.
ErrorMeasures measures_of(const ErrorSums& sums);

}  // namespace zeropp::zero

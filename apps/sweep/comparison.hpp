// A result beside what it has to be: how many elements are wrong, the first of them, what kind of
// error it looks like, the largest error as a share of its bound, and the slope fitted between
// both. Sums up over the pieces that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/sweep/collective.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::sweep {

/// Moments that a slope through the origin is fitted from; they may be added over ranks.
struct Moments {
  double products = 0;   ///< wanted * got
  double squares = 0;    ///< wanted^2
  double residuals = 0;  ///< (got - wanted)^2
  double count = 0;

  Moments& operator+=(const Moments& other);
  [[nodiscard]] double slope() const { return squares > 0 ? products / squares : 1.0; }
  /// Standard error of the slope: what chance alone moves it by.
  [[nodiscard]] double slope_error() const;
};

class Comparison {
 public:
  /// Every byte of memory that nothing was written to yet.
  static constexpr std::byte kPoison{0xA5};

  /// `sign`: the expected values are multiplied by it (+1 or -1).
  explicit Comparison(double sign) : sign_(sign) {}

  /// Compares `got` (host memory) with `expected`: elements of the result from `index` on.
  void add(ConstView got, std::size_t index, const Expected& expected);

  /// Adds what `other`, of other pieces of the same result, has found.
  void merge(const Comparison& other);

  [[nodiscard]] std::size_t wrong() const { return wrong_; }
  /// Error over bound; 0 where all is exact.
  [[nodiscard]] double largest_error() const { return largest_error_; }
  [[nodiscard]] const Moments& moments() const { return moments_; }
  /// "index 7: got 3, wanted 4; 16 wrong: scaled by 0.75"; wrong() > 0.
  [[nodiscard]] std::string describe() const;

 private:
  struct Element {
    std::size_t index;
    float got;
    std::uint32_t bits;  ///< as it lies in memory
    double wanted;
    double bound;
  };
  [[nodiscard]] std::string kind() const;
  /// Whether `rule` holds for every kept element.
  template <class Rule>
  [[nodiscard]] bool all(Rule&& rule) const;
  [[nodiscard]] double scale() const;

  double sign_;
  std::size_t wrong_ = 0;
  double largest_error_ = 0;
  Moments moments_;
  Dtype dtype_ = Dtype::fp32;
  std::vector<Element> kept_;  ///< the first wrong ones
};

}  // namespace zeropp::sweep

// Verdict on a kernel's result: the first finding of what is wrong counts. Poison is a NaN, so that
// no comparison with it holds.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "apps/kernels/operands.hpp"

namespace zeropp::kernels {

class Verdict {
 public:
  /// Requires that no element is a NaN.
  void written(const Result& result) { written(result, 1, result.size(), result.size()); }
  /// Requires that no element is a NaN in a matrix [rows, columns] whose rows lie `stride` elements
  /// apart.
  void written(const Result& result, std::size_t rows, std::size_t columns, std::size_t stride);
  /// Requires |result[i] - wanted| <= tolerance.
  void close(const Result& result, std::size_t i, double wanted, double tolerance);
  /// Requires that the result is, byte for byte, what the host's kernel writes.
  void same_bytes(const Result& result, std::span<const std::byte> wanted);

  /// Adds a finding in words of the caller.
  void fail(std::string finding);

  [[nodiscard]] bool good() const { return text_.empty(); }
  /// Text of the first finding; empty, or for example "y[12] is nan, wanted 0.5 +- 0.001".
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Places in [0, n) to look at: the first, the last, and up to `count` between; the same in every
/// run.
std::vector<std::size_t> some_of(std::size_t n, std::size_t count);

}  // namespace zeropp::kernels

#include "lib/base/in_width.hpp"

#include <fmt/format.h>

#include <cmath>

namespace zeropp {

std::string in_width(double value, int width) {
  const double magnitude = std::abs(value);
  int digits = 1;
  for (double limit = 10; magnitude >= limit && digits < 300; limit *= 10) ++digits;
  if (digits + 3 <= width) return fmt::format("{:.2f}", value);
  if (digits + 2 <= width) return fmt::format("{:.1f}", value);
  if (digits <= width) return fmt::format("{:.0f}", value);
  return fmt::format("{:.1e}", value);
}

}  // namespace zeropp

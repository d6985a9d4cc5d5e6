// Conversions that check their range: sizes are std::size_t here, counts in C interfaces often int.
#pragma once

#include <concepts>
#include <string>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp {

/// Converts `value` to To, or throws Error(environment) that names `what`.
template <std::integral To, std::integral From>
[[nodiscard]] To checked(From value, const char* what) {
  if (!std::in_range<To>(value)) {
    throw Error(ExitCode::environment, std::string(what) + " " + std::to_string(value) +
                                           " is out of range for the interface it is passed to");
  }
  return static_cast<To>(value);
}

/// Smallest multiple of `multiple` (> 0) that is not under `value`.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr T ceil_div(T value, T divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace zeropp

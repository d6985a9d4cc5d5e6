// Verdict of a program on its run: "VALID", or "INVALID: reason".
#pragma once

#include <string_view>

namespace zeropp::trace {

inline constexpr const char* kValid = "VALID";

inline bool is_valid(std::string_view verdict) { return verdict == kValid; }

}  // namespace zeropp::trace

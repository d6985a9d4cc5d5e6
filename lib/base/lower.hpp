// Text with its ASCII letters made small.
#pragma once

#include <cctype>
#include <string>

namespace zeropp {

inline std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace zeropp

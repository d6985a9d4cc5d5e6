#include "lib/base/shown.hpp"

#include <fmt/format.h>

namespace zeropp {

namespace {

constexpr std::size_t kLongest = 200;

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::string without_nul(const std::string& text) {
  std::string visible;
  for (const char each : text)
    visible += each == '\0' ? std::string("\\x00") : std::string(1, each);
  return visible;
}

}  // namespace

std::string shown(const std::string& text) {
  if (text.size() <= kLongest) return without_nul(text);
  std::size_t end = kLongest;
  while (end > 0 && is_inside_character(text[end])) --end;
  return fmt::format("{}... ({} bytes)", without_nul(text.substr(0, end)), text.size());
}

}  // namespace zeropp

#include "lib/base/shown.hpp"

#include <fmt/format.h>

namespace zeropp {

namespace {

constexpr std::size_t kLongest = 200;

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

std::string escaped(const std::string& text) {
  std::string line;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte >= 0x20 && byte != 0x7F) {
      line += each;
    } else {
      line += fmt::format("\\x{:02x}", byte);
    }
  }
  return line;
}

std::string shown(const std::string& text) {
  if (text.size() <= kLongest) return escaped(text);
  std::size_t end = kLongest;
  while (end > 0 && is_inside_character(text[end])) --end;
  return fmt::format("{}... ({} bytes)", escaped(text.substr(0, end)), text.size());
}

}  // namespace zeropp

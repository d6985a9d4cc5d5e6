#include "lib/base/text.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>

namespace zeropp {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

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

std::string utc(std::time_t when) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(when));
}

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

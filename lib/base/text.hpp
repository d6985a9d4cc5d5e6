// Small functions on text, for parsing, messages and printed tables.
#pragma once

#include <cctype>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace zeropp {

/// "a,,b" -> a, an empty part, b; an empty text has one empty part.
std::vector<std::string> split(std::string_view text, char separator);

/// Text with its ASCII letters made small.
inline std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Text that somebody else wrote as it may stand in a message, with control characters as \x0a: it
/// begins no line, and moves no terminal.
std::string escaped(const std::string& text);

/// escaped() as far as a line has room for it, in whole characters of UTF-8, and how long the text
/// is where that is not all.
std::string shown(const std::string& text);

/// A time in UTC: "2026-11-29T15:51:32Z".
std::string utc(std::time_t when);

/// A value in `width` characters as nccl-tests shows it: two decimals, fewer of large ones.
std::string in_width(double value, int width);

}  // namespace zeropp

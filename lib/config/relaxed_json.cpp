#include "lib/config/relaxed_json.hpp"

#include <algorithm>
#include <string_view>

namespace zeropp::config {

namespace {

/// The byte after the string that begins at `at`.
std::size_t after_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

/// The byte after the comment that begins at `at`; `at` where none does. One that is not closed is
/// none.
std::size_t after_comment(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("#") || rest.starts_with("//")) {
    return std::min(text.find('\n', at), text.size());
  }
  const std::size_t close =
      rest.starts_with("/*") ? text.find("*/", at + 2) : std::string_view::npos;
  return close == std::string_view::npos ? at : close + 2;
}

}  // namespace

std::string without_comments(std::string text) {
  std::size_t comma = std::string::npos;  // with spaces and comments alone after it
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t end = after_comment(text, at); end != at) {
      std::replace_if(
          text.begin() + static_cast<std::ptrdiff_t>(at),
          text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) { return c != '\n'; }, ' ');
      at = end;
    } else if (text[at] == '"') {
      comma = std::string::npos;
      at = after_string(text, at);
    } else {
      if ((text[at] == '}' || text[at] == ']') && comma != std::string::npos) text[comma] = ' ';
      const bool blank = std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos;
      if (!blank) comma = text[at] == ',' ? at : std::string::npos;
      ++at;
    }
  }
  return text;
}

}  // namespace zeropp::config

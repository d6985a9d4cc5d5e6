#include "lib/config/flag_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <map>

namespace zeropp::config {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether a path is a key and no word of plain text: "train_batch_size", not "seed".
bool is_key(const std::string& path) { return path.find_first_of("._") != std::string::npos; }

/// Place of a name of paths or flags in a text, not as part of a longer one; npos: it is not there.
std::size_t find_name(const std::string& text, const std::string& name) {
  const auto joins = [&](std::size_t at) {  // a full stop ends a sentence, but within a path
    return at < text.size() &&
           (is_word(text[at]) || ((text[at] == '.' || text[at] == '-') && at + 1 < text.size() &&
                                  is_word(text[at + 1])));
  };
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const bool begins = at == 0 || !(is_word(text[at - 1]) || text[at - 1] == '.');
    if (begins && !joins(at + name.size())) return at;
  }
  return std::string::npos;
}

}  // namespace

std::string with_flags(const std::string& message, const std::vector<Option>& table) {
  std::map<std::size_t, std::string> flags;  // by the place of their paths
  for (const Option& option : table) {
    if (!is_key(option.path)) continue;
    const std::size_t at = find_name(message, option.path);
    if (at == std::string::npos || find_name(message, option.flag) != std::string::npos) continue;
    flags.emplace(at, option.flag);
  }
  if (flags.empty()) return message;
  std::vector<std::string> named;
  for (const auto& [at, flag] : flags) named.push_back(flag);
  return fmt::format("{} (flag{}: {})", message, named.size() > 1 ? "s" : "",
                     fmt::join(named, ", "));
}

}  // namespace zeropp::config

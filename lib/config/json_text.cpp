// The text of a configuration file: read from disk, and parsed as JSON in the form that people
// write by hand and DeepSpeed's reader (hjson) takes, with comments and a comma after the last
// entry.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/text.hpp"
#include "lib/config/json.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;

constexpr std::size_t largest_file = std::size_t{1} << 20U;
constexpr int deepest_nesting = 16;

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

/// The text with a space instead of each byte of a comment (#, //, /* */) and of each comma before
/// a closing bracket: every other byte, and every line, stays where it is.
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

/// Rejects duplicate keys and bottomless nesting while the parser runs: the library keeps the last
/// of equal keys in silence.
class Watch {
 public:
  explicit Watch(const std::string& name) : name_(name) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (depth > deepest_nesting) {
      throw Error(ExitCode::usage,
                  fmt::format("{}: nested deeper than {}: no configuration is: check its brackets",
                              name_, deepest_nesting));
    }
    if (event == json::parse_event_t::object_start) scopes_.push_back({});
    if (event == json::parse_event_t::object_end) scopes_.pop_back();
    if (event == json::parse_event_t::key) {
      auto& [keys, current] = scopes_.back();
      current = parsed.get<std::string>();
      if (!keys.insert(current).second) {
        std::string path;
        for (const auto& scope : scopes_) path += (path.empty() ? "" : ".") + scope.current;
        throw Error(ExitCode::usage,
                    fmt::format("{}: {} appears twice: keep one of them", name_, shown(path)));
      }
    }
    return true;
  }

 private:
  struct Scope {
    std::set<std::string> keys;
    std::string current;
  };
  const std::string& name_;
  std::vector<Scope> scopes_;
};

/// "line:column" of a byte.
std::string place_of(const std::string& text, std::size_t byte) {
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n');
  const std::size_t begin = byte == 0 ? std::string::npos : text.rfind('\n', byte - 1);
  return fmt::format("{}:{}", line, byte - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

[[noreturn]] void refuse_malformed(const std::string& text, const std::string& name,
                                   std::size_t byte, const std::string& why) {
  throw Error(ExitCode::usage,
              fmt::format("{}:{}: malformed JSON: {}", name, place_of(text, byte), shown(why)));
}

[[noreturn]] void fail_malformed(const std::string& text, const std::string& name,
                                 const json::parse_error& error) {
  // The library counts bytes from 1 and points at the last one read.
  const std::size_t end = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Error(ExitCode::usage, fmt::format("{}: it is empty: at least {{}} is needed", name));
  }
  if (end == text.size()) {
    refuse_malformed(text, name, end, "it ends before it is complete: close what is open");
  }
  std::string what = error.what();
  if (const auto colon = what.find(": "); colon != std::string::npos) what = what.substr(colon + 2);
  refuse_malformed(text, name, end, what);
}

/// Refuses a number that is out of range. The library's message has the number between quotes.
[[noreturn]] void fail_out_of_range(const std::string& text, const std::string& name,
                                    const std::string& message) {
  const std::size_t begin = std::min(message.find('\''), message.size() - 1) + 1;
  const std::string number = message.substr(begin, message.rfind('\'') - begin);
  refuse_malformed(text, name, std::min(text.find(number), text.size()),
                   fmt::format("the number {} is beyond what a double holds", shown(number)));
}

json parse(const std::string& written, const std::string& name) {
  // The library takes a NUL for the end.
  if (const std::size_t nul = written.find('\0'); nul != std::string::npos) {
    refuse_malformed(written, name, nul, "a NUL byte: write the file as text in UTF-8");
  }
  const std::string text = without_comments(written);
  try {
    return json::parse(text, Watch(name));
  } catch (const json::parse_error& error) {
    fail_malformed(text, name, error);
  } catch (const json::exception& error) {
    fail_out_of_range(text, name, error.what());
  }
}

}  // namespace

nlohmann::json parse_object(const std::string& text, const std::string& name) {
  json document = parse(text, name);
  if (!document.is_object()) {
    throw Error(ExitCode::usage, name + ": a configuration is a JSON object: begin it with {");
  }
  return document;
}

std::string read_config_text(const std::filesystem::path& path, std::string_view what,
                             std::string_view remedy) {
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(path, error).type();
  const bool regular = type == std::filesystem::file_type::regular;
  const bool folder = type == std::filesystem::file_type::directory;
  std::ifstream file(path, std::ios::binary);
  if (!regular || !file) {
    throw Error(ExitCode::io, fmt::format("cannot read {} {}: {}; check {}", what, path.string(),
                                          error     ? error.message()
                                          : folder  ? "it is a folder"
                                          : regular ? "no permission"
                                                    : "no such file",
                                          remedy));
  }
  if (std::filesystem::file_size(path) > largest_file) {
    throw Error(ExitCode::usage, path.string() + ": larger than 1 MiB, hardly a configuration");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace zeropp::config

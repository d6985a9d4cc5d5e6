#include "lib/config/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/base/shown.hpp"
#include "lib/config/aliases.hpp"
#include "lib/config/deepspeed_keys.hpp"
#include "lib/config/options.hpp"

namespace zeropp::config {
namespace {

using nlohmann::json;

constexpr std::size_t largest_file = std::size_t{1} << 20U;
constexpr int deepest_nesting = 16;

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
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
        for (const auto& scope : scopes_) path = joined(path, scope.current);
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

/// The last byte before `end` that is no space; nothing: there is none.
std::optional<std::size_t> last_before(const std::string& text, std::size_t end) {
  const std::size_t found =
      end == 0 ? std::string::npos : text.find_last_not_of(" \t\r\n", end - 1);
  return found == std::string::npos ? std::nullopt : std::optional(found);
}

[[noreturn]] void fail_malformed(const std::string& text, const std::string& name,
                                 const json::parse_error& error) {
  for (const char* other : {".toml", ".yaml", ".yml"}) {
    if (!name.ends_with(other)) continue;
    throw Error(ExitCode::usage,
                fmt::format("{}: a configuration is JSON, as DeepSpeed's: {} is not read; the keys "
                            "are those of docs/reference/options.md",
                            name, other));
  }
  // The library counts bytes from 1 and points at the last one read.
  const std::size_t end = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
  const bool closes = end < text.size() && (text[end] == '}' || text[end] == ']');
  const auto before = last_before(text, end);
  if (end == text.size()) {
    if (before) {
      refuse_malformed(text, name, end, "it ends before it is complete: close what is open");
    }
    throw Error(ExitCode::usage, fmt::format("{}: it is empty: at least {{}} is needed", name));
  }
  if (closes && before && text[*before] == ',') {
    refuse_malformed(text, name, *before,
                     fmt::format("a comma before {}: leave it out", text[end]));
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

json parse(const std::string& text, const std::string& name) {
  // The library takes a NUL for the end.
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    refuse_malformed(text, name, nul, "a NUL byte: write the file as text in UTF-8");
  }
  try {
    return json::parse(text, Watch(name));
  } catch (const json::parse_error& error) {
    fail_malformed(text, name, error);
  } catch (const json::exception& error) {
    fail_out_of_range(text, name, error.what());
  }
}

/// Walks a document and sets the option of every leaf.
class Reader {
 public:
  Reader(const std::string& name, std::vector<Option>& options)
      : name_(name), options_(options), trains_(reads_deepspeed(options)) {}

  void read(const json& value, const std::string& path) {
    if (value.is_null() && says_nothing(path)) {
      nulls_.push_back(path);
    } else if (const DeepSpeedKey* other = trains_ ? find_deepspeed_key(path) : nullptr) {
      warnings_.push_back(accept(*other, value, name_));
    } else if (const Alias* alias = trains_ ? find_alias(path) : nullptr) {
      named_.emplace_back(alias, value);
    } else if (value.is_object() && (value.empty() ? is_section(path) : !find(path))) {
      // The type is read first, since it decides which parameters there are: those of another type
      // are no mistakes of spelling.
      if (value.contains("type")) read(value["type"], joined(path, "type"));
      for (const auto& [key, child] : value.items()) {
        if (key != "type") read(child, joined(path, key));
      }
    } else if (value.is_array() && is_section(path)) {
      const auto known = static_cast<std::size_t>(
          std::count_if(options_.begin(), options_.end(),
                        [&](const Option& option) { return option.path.starts_with(path + "."); }));
      if (value.size() != known || !find(path + ".0")) {
        throw Error(
            ExitCode::usage,
            fmt::format("{}: {} must {}, not {}", name_, path,
                        find(path + ".0") ? fmt::format("have {} entries", known) : "be an object",
                        shown(value.dump())));
      }
      for (std::size_t i = 0; i < value.size(); ++i)
        read(value[i], joined(path, std::to_string(i)));
    } else if (value == "auto" && is_automatic_section(path)) {
      for (Option& option : options_) {
        if (option.path.starts_with(path + ".")) set(option, value, option.path);
      }
    } else if (Option* option = find(path)) {
      set(*option, value, path);
    } else if (is_section(path)) {
      throw Error(ExitCode::usage,
                  fmt::format("{}: {} must be an object or array of options, not {}", name_, path,
                              shown(value.dump())));
    } else {
      const std::string key = shown(path);
      throw Error(ExitCode::usage, fmt::format("{}: unknown key {} (nearest known: {})", name_, key,
                                               nearest(key, known_paths())));
    }
  }

  /// Applies the other names of options, after read(). Returns the warnings.
  std::vector<std::string> finish() {
    apply_aliases(named_, name_, options_);
    if (!nulls_.empty()) {
      warnings_.push_back(
          fmt::format("{}: null, as if left out: {}", name_, fmt::join(nulls_, ", ")));
    }
    return std::move(warnings_);
  }

 private:
  void set(Option& option, const json& value, const std::string& path) {
    set_from_json(option, value, name_ + ": " + path);
    option.key = path;
  }
  Option* find(const std::string& path) {
    const auto found = std::find_if(options_.begin(), options_.end(),
                                    [&](const Option& option) { return option.path == path; });
    return found == options_.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::vector<std::string> known_paths() const {
    std::vector<std::string> paths = paths_of(options_);
    if (!trains_) return paths;
    for (const Alias& alias : aliases()) paths.push_back(alias.path);
    for (const DeepSpeedKey& key : deepspeed_keys()) paths.push_back(key.path);
    return paths;
  }
  /// Whether a path is that of a section of keys, or of a list.
  bool is_section(const std::string& path) const {
    const std::vector<std::string> paths = known_paths();
    return path.empty() || std::any_of(paths.begin(), paths.end(), [&](const std::string& known) {
             return known.starts_with(path + ".");
           });
  }

  /// Whether null says nothing at a path: it is DeepSpeed's way to leave out what is known.
  [[nodiscard]] bool says_nothing(const std::string& path) {
    const bool own = path.empty() || path == "zeropp" || path.starts_with("zeropp.");
    return trains_ && !own &&
           (find(path) || find_alias(path) || find_deepspeed_key(path) || is_section(path));
  }

  /// Whether a section such as betas has an "auto" of its own: its options are all there is below
  /// it, and each has one.
  [[nodiscard]] bool is_automatic_section(const std::string& path) const {
    return is_section(path) && std::ranges::all_of(options_, [&](const Option& option) {
             return !option.path.starts_with(path + ".") || option.automatic;
           });
  }

  const std::string& name_;
  std::vector<Option>& options_;
  bool trains_;  ///< the options are the trainer's, which know DeepSpeed's keys
  std::vector<std::string> warnings_;
  std::vector<std::string> nulls_;  ///< keys
  NamedValues named_;
};

std::string first_key(const std::string& path) { return path.substr(0, path.find('.')); }

/// Removes from `object` what a training configuration has and `options` have not; its names.
std::vector<std::string> take_training(json& object, const std::vector<Option>& options) {
  TrainConfig unread;
  std::set<std::string> sections;
  for (const std::string& path : paths_of(config::options(unread)))
    sections.insert(first_key(path));
  for (const Alias& alias : aliases()) sections.insert(first_key(alias.path));
  for (const DeepSpeedKey& key : deepspeed_keys()) sections.insert(first_key(key.path));
  for (const std::string& path : paths_of(options)) sections.erase(first_key(path));
  std::vector<std::string> taken;
  for (const std::string& section : sections) {
    if (object.erase(section) > 0) taken.push_back(section);
  }
  return taken;
}

}  // namespace

nlohmann::json parse_object(const std::string& text, const std::string& name) {
  json document = parse(text, name);
  if (!document.is_object()) {
    throw Error(ExitCode::usage, name + ": a configuration is a JSON object: begin it with {");
  }
  return document;
}

std::vector<std::string> read_object(const json& object, const std::string& name,
                                     std::vector<Option>& options) {
  Reader reader(name, options);
  if (object.contains("gpu") && object.contains("rails")) {
    throw Error(ExitCode::usage,
                fmt::format("{}: this file describes a cluster, not a run: zpp_plan takes it as "
                            "--cluster {}",
                            name, name));
  }
  reader.read(object, "");
  return reader.finish();
}

std::vector<std::string> read_text(const std::string& text, const std::string& name,
                                   std::vector<Option>& options) {
  return read_object(parse_object(text, name), name, options);
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

std::vector<std::string> read_file(const std::filesystem::path& path, std::vector<Option>& options,
                                   const std::string& training_ignored) {
  json object = parse_object(read_config_text(path), path.string());
  const std::vector<std::string> ignored =
      training_ignored.empty() ? std::vector<std::string>{} : take_training(object, options);
  std::vector<std::string> warnings = read_object(object, path.string(), options);
  if (!ignored.empty()) {
    warnings.push_back(fmt::format("{}: {} change nothing here: {}", path.string(),
                                   fmt::join(ignored, ", "), training_ignored));
  }
  return warnings;
}

std::string canonical_json(const std::vector<Option>& options) {
  json document = json::object();
  for (const auto& option : options) {
    if (option.in_effect && !option.in_effect()) continue;
    std::string pointer = "/" + option.path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    document[json::json_pointer(pointer)] = value_of(option);
  }
  return document.dump();
}

}  // namespace zeropp::config

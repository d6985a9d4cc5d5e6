#include "lib/config/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/base/sha256.hpp"
#include "lib/config/aliases.hpp"
#include "lib/config/deepspeed_keys.hpp"

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
                  fmt::format("{}: nested deeper than {}", name_, deepest_nesting));
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
                    fmt::format("{}: {} appears twice: keep one of them", name_, path));
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

[[noreturn]] void fail_malformed(const std::string& text, const std::string& name,
                                 const json::parse_error& error) {
  // The library counts bytes from 1 and points at the last one read.
  const std::size_t end = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const std::size_t begin = text.rfind('\n', end == 0 ? 0 : end - 1);
  const std::size_t column = end - (begin == std::string::npos || end == 0 ? 0 : begin + 1) + 1;
  std::string what = error.what();
  if (const auto colon = what.find(": "); colon != std::string::npos) what = what.substr(colon + 2);
  throw Error(ExitCode::usage,
              fmt::format("{}:{}:{}: malformed JSON: {}", name, line, column, what));
}

json parse(const std::string& text, const std::string& name) {
  try {
    return json::parse(text, Watch(name));
  } catch (const json::parse_error& error) {
    fail_malformed(text, name, error);
  } catch (const json::exception& error) {  // a number beyond the range of double
    throw Error(ExitCode::usage, fmt::format("{}: malformed JSON: {}", name, error.what()));
  }
}

/// Walks a document and sets the option of every leaf.
class Reader {
 public:
  Reader(const std::string& name, std::vector<Option>& options)
      : name_(name), options_(options), trains_(reads_deepspeed(options)) {}

  void read(const json& value, const std::string& path) {
    if (const DeepSpeedKey* other = trains_ ? find_deepspeed_key(path) : nullptr) {
      warnings_.push_back(accept(*other, value, name_));
    } else if (const Alias* alias = trains_ ? find_alias(path) : nullptr) {
      named_.emplace_back(alias, value);
    } else if (value.is_object() && (value.empty() ? is_section(path) : !find(path))) {
      for (const auto& [key, child] : value.items()) read(child, joined(path, key));
    } else if (value.is_array() && is_section(path)) {
      const auto known = static_cast<std::size_t>(
          std::count_if(options_.begin(), options_.end(),
                        [&](const Option& option) { return option.path.starts_with(path + "."); }));
      if (value.size() != known || !find(path + ".0")) {
        throw Error(
            ExitCode::usage,
            fmt::format("{}: {} must {}, not {}", name_, path,
                        find(path + ".0") ? fmt::format("have {} entries", known) : "be an object",
                        value.dump()));
      }
      for (std::size_t i = 0; i < value.size(); ++i)
        read(value[i], joined(path, std::to_string(i)));
    } else if (value == "auto" && is_automatic_section(path)) {
      for (Option& option : options_) {
        if (option.path.starts_with(path + ".")) set_from_json(option, value, name_);
      }
    } else if (Option* option = find(path)) {
      set_from_json(*option, value, name_ + ": " + path);
    } else if (is_section(path)) {
      throw Error(ExitCode::usage,
                  fmt::format("{}: {} must be an object or array of options, not {}", name_, path,
                              value.dump()));
    } else {
      throw Error(ExitCode::usage, fmt::format("{}: unknown key {} (nearest known: {})", name_,
                                               path, nearest(path, known_paths())));
    }
  }

  /// After read(): the other names of options. Returns the warnings.
  std::vector<std::string> finish() {
    apply_aliases(named_, name_, options_);
    return std::move(warnings_);
  }

 private:
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
  /// Of keys, or of a list.
  bool is_section(const std::string& path) const {
    const std::vector<std::string> paths = known_paths();
    return path.empty() || std::any_of(paths.begin(), paths.end(), [&](const std::string& known) {
             return known.starts_with(path + ".");
           });
  }

  /// Such as betas: its options are all there is below it, and each has an "auto".
  [[nodiscard]] bool is_automatic_section(const std::string& path) const {
    return is_section(path) && std::ranges::all_of(options_, [&](const Option& option) {
             return !option.path.starts_with(path + ".") || option.automatic;
           });
  }

  const std::string& name_;
  std::vector<Option>& options_;
  bool trains_;  ///< the options are the trainer's, which know DeepSpeed's keys
  std::vector<std::string> warnings_;
  NamedValues named_;
};

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
  reader.read(object, "");
  return reader.finish();
}

std::vector<std::string> read_text(const std::string& text, const std::string& name,
                                   std::vector<Option>& options) {
  return read_object(parse_object(text, name), name, options);
}

std::string read_config_text(const std::filesystem::path& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  std::ifstream file(path, std::ios::binary);
  if (!regular || !file) {
    throw Error(ExitCode::io,
                fmt::format("cannot read the configuration {}: {}; check --config", path.string(),
                            error     ? error.message()
                            : regular ? "no permission"
                                      : "no such file"));
  }
  if (std::filesystem::file_size(path) > largest_file) {
    throw Error(ExitCode::usage, path.string() + ": larger than 1 MiB, hardly a configuration");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> read_file(const std::filesystem::path& path,
                                   std::vector<Option>& options) {
  return read_text(read_config_text(path), path.string(), options);
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

std::string canonical_hash(const std::vector<Option>& options) {
  return sha256_hex(canonical_json(options));
}

}  // namespace zeropp::config

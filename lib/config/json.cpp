#include "lib/config/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/base/text.hpp"
#include "lib/config/aliases.hpp"
#include "lib/config/deepspeed_keys.hpp"
#include "lib/config/options.hpp"
#include "lib/config/refuse.hpp"
#include "lib/config/relaxed_json.hpp"
#include "lib/config/unknown_key.hpp"

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

bool is_own(const std::string& path) { return path == "zeropp" || path.starts_with("zeropp."); }

/// Walks a document and sets the option of every leaf. What is refused is told at the end, all at
/// once.
class Reader {
 public:
  explicit Reader(std::vector<Option>& options)
      : options_(options), trains_(reads_deepspeed(options)), known_(known_paths(options)) {}

  void read(const json& value, const std::string& path) {
    const DeepSpeedKey* const key = trains_ ? find_deepspeed_key(path) : nullptr;
    const Alias* const alias = trains_ ? find_alias(path) : nullptr;
    Option* const option = find(path);
    if (key == nullptr && alias == nullptr && option == nullptr && !is_section(path)) {
      collect([&] { take_unknown(value, path); });
    } else if (says_nothing(value, path, option)) {
      return;
    } else if (key != nullptr) {
      collect([&] {
        check_ignored(*key, value, path);
        ignored_.push_back({path, key->why});
      });
    } else if (alias != nullptr) {
      named_.emplace_back(alias, value);
    } else if (option != nullptr) {
      collect([&] { set(*option, value, path); });
    } else {
      read_section(value, path);
    }
  }

  /// Applies the other names of options, after read(). `name` stands for the file.
  std::vector<Ignored> finish(const std::string& name) {
    for (const Alias& alias : aliases()) {
      for (const auto& [which, value] : named_) {
        if (which == &alias) collect([&] { apply_alias(alias, value, named_, options_); });
      }
    }
    if (refusals_.size() == 1) refuse("{}: {}", name, refusals_.front());
    for (std::size_t i = 0; i < refusals_.size(); ++i) {
      refusals_[i] = fmt::format("({}) {}", i + 1, refusals_[i]);
    }
    if (!refusals_.empty()) {
      refuse("{}: {} keys are refused: {}", name, refusals_.size(), fmt::join(refusals_, "; "));
    }
    return std::move(ignored_);
  }

 private:
  template <class Take>
  void collect(const Take& take) {
    try {
      take();
    } catch (const Error& refusal) {
      refusals_.emplace_back(refusal.what());
    }
  }

  void read_section(const json& value, const std::string& path) {
    // The old form of DeepSpeed's key: whether stage 1 is on.
    if (trains_ && path == "zero_optimization" && value.is_boolean()) {
      return read(value.get<bool>() ? 1 : 0, "zero_optimization.stage");
    }
    if (find(path + ".0") != nullptr) return read_list(value, path);
    if (!value.is_object()) {
      refusals_.push_back(
          fmt::format("{} must be an object of options, not {}", path, shown(value.dump())));
      return;
    }
    // The type is read first, since it decides which parameters there are: those of another type
    // are no mistakes of spelling.
    const std::size_t refused = refusals_.size();
    if (value.contains("type")) read(value["type"], joined(path, "type"));
    if (refusals_.size() > refused) return;
    for (const auto& [key, child] : value.items()) {
      if (key == "type") continue;
      const std::string inside = joined(path, key);
      if (key.find('.') == std::string::npos) {
        read(child, inside);
      } else {
        refusals_.push_back(fmt::format(
            "unknown key \"{}\"{}: a dot in a name divides nothing: write a section for each part",
            shown(key), path.empty() ? "" : " in " + path));
      }
    }
  }

  void read_list(const json& value, const std::string& path) {
    const auto entries = static_cast<std::size_t>(std::ranges::count_if(
        options_, [&](const Option& option) { return option.path.starts_with(path + "."); }));
    if (!value.is_array() || value.size() != entries) {
      refusals_.push_back(fmt::format("{} must be a list of {} entries, not {}", path, entries,
                                      shown(value.dump())));
      return;
    }
    for (std::size_t i = 0; i < entries; ++i) read(value[i], joined(path, std::to_string(i)));
  }

  /// Throws Error(usage) for what may be a mistake.
  void take_unknown(const json& value, const std::string& path) {
    if (!trains_ || is_own(path)) {
      refuse("unknown key {} (nearest known: {})", shown(path), nearest(path, known_));
    }
    check_unknown(path, value, options_);
    const std::string meant = alike_known(path, known_);
    ignored_.push_back({shown(path), "DeepSpeed has no such key" +
                                         (meant.empty() ? "" : ", the nearest is " + meant)});
  }

  /// null, which is DeepSpeed's way to leave out what is known, and "auto" where there is nothing
  /// to choose. Options of `zeropp` have neither.
  [[nodiscard]] bool says_nothing(const json& value, const std::string& path,
                                  const Option* option) {
    if (!trains_ || path.starts_with("zeropp.")) return false;
    const Alias* const alias = find_alias(path);
    const Option* const meant = alias == nullptr        ? option
                                : alias->values.empty() ? find(alias->meaning)
                                                        : nullptr;
    const bool chooses = meant != nullptr && meant->automatic;
    return value.is_null() || (value == "auto" && path != "zeropp" && !chooses);
  }

  /// DeepSpeed takes "true" and "8" for true and 8.
  static void set(Option& option, const json& value, const std::string& path) {
    const bool as_text = value.is_string() && !takes_text(option) && !is_own(path);
    const json meant =
        as_text ? json::parse(lower(value.get<std::string>()), nullptr, false) : value;
    set_from_json(option, meant.is_boolean() || meant.is_number() ? meant : value, path);
    option.key = path;
  }
  Option* find(const std::string& path) {
    const auto found = std::ranges::find(options_, path, &Option::path);
    return found == options_.end() ? nullptr : &*found;
  }
  /// Whether a path is that of a section of keys, or of a list.
  [[nodiscard]] bool is_section(const std::string& path) const {
    return path.empty() || std::ranges::any_of(known_, [&](const std::string& known) {
             return known.starts_with(path + ".");
           });
  }

  std::vector<Option>& options_;
  bool trains_;  ///< the options are the trainer's, which know DeepSpeed's keys
  std::vector<std::string> known_;
  std::vector<Ignored> ignored_;
  std::vector<std::string> refusals_;
  NamedValues named_;
};

std::string first_key(const std::string& path) { return path.substr(0, path.find('.')); }

/// Removes from `object` what a training configuration has and `options` have not; its names.
std::vector<std::string> take_training(json& object, const std::vector<Option>& options) {
  TrainConfig unread;
  std::set<std::string> sections;
  for (const std::string& path : known_paths(config::options(unread))) {
    sections.insert(first_key(path));
  }
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

std::vector<Ignored> read_object(const json& object, const std::string& name,
                                 std::vector<Option>& options) {
  Reader reader(options);
  if (object.contains("gpu") && object.contains("rails")) {
    throw Error(ExitCode::usage,
                fmt::format("{}: this file describes a cluster, not a run: zpp_plan takes it as "
                            "--cluster {}",
                            name, name));
  }
  reader.read(object, "");
  return reader.finish(name);
}

std::vector<Ignored> read_text(const std::string& text, const std::string& name,
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

std::vector<Ignored> read_file(const std::filesystem::path& path, std::vector<Option>& options,
                               const std::string& training_ignored) {
  json object = parse_object(read_config_text(path), path.string());
  std::vector<Ignored> ignored;
  if (!training_ignored.empty()) {
    for (std::string& key : take_training(object, options)) {
      ignored.push_back({std::move(key), training_ignored});
    }
  }
  std::ranges::move(read_object(object, path.string(), options), std::back_inserter(ignored));
  return ignored;
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

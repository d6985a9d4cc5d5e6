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
#include "lib/config/unknown_key.hpp"

namespace zeropp::config {
namespace {

using nlohmann::json;

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

bool is_own(const std::string& path) { return path == "zeropp" || path.starts_with("zeropp."); }

/// Walks a document and sets the option of every leaf. All refusals are reported together at the
/// end.
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

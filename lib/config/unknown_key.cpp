#include "lib/config/unknown_key.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/nearest.hpp"
#include "lib/base/text.hpp"
#include "lib/config/aliases.hpp"
#include "lib/config/deepspeed_keys.hpp"
#include "lib/config/other_names.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;

constexpr std::size_t kShortestBegin = 4;
constexpr std::size_t kLongestName = 100;  ///< no key comes near to a longer one

/// The part of a path before its last dot, with the dot.
std::string section_of(const std::string& path) { return path.substr(0, path.rfind('.') + 1); }
std::string last_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

bool is_spelled_like(const std::string& name, const std::string& known) {
  const std::string folded = lower(name);
  return (name.size() >= kShortestBegin && known.starts_with(folded)) ||
         4 * edit_distance(folded, known) <= name.size();
}

/// Paths of keys that change a run: options, other names of them, and keys of which some values are
/// refused.
std::vector<std::string> paths_that_matter(const std::vector<Option>& options) {
  std::vector<std::string> paths = paths_of(options);
  for (const Alias& alias : aliases()) paths.push_back(alias.path);
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    if (key.ignores != DeepSpeedKey::Ignores::anything) paths.push_back(key.path);
  }
  return paths;
}

/// The key beside `path` that its name is like; empty: none.
std::string misspelled(const std::string& path, const std::vector<Option>& options) {
  const std::string section = section_of(path);
  const std::string name = last_of(path);
  std::string nickname = name;
  std::ranges::replace(nickname, '_', '-');
  for (const Option& option : options) {
    if (section_of(option.path) == section && is_called(option, nickname)) return option.path;
  }
  std::vector<std::string> beside;
  for (const std::string& known : paths_that_matter(options)) {
    if (!known.starts_with(section)) continue;
    const std::string rest = known.substr(section.size());
    const std::string other = rest.substr(0, rest.find('.'));
    if (is_spelled_like(name, other)) beside.push_back(other);
  }
  return beside.empty() ? "" : section + nearest(name, beside);
}

/// The one key of another section that has the name of `path`, or a section at the top that has it;
/// empty: none.
std::string misplaced(const std::string& path, const json& value,
                      const std::vector<Option>& options) {
  std::string name = last_of(path);
  std::string found;
  for (const Option& option : options) {
    if (option.path.starts_with("zeropp.")) continue;
    if (value.is_object() && option.path.starts_with(name + ".")) return name;
    if (last_of(option.path) != name) continue;
    if (!found.empty()) return "";
    found = option.path;
  }
  return found;
}

/// Whether nothing is lost with `value`, where the key `meant` is meant.
bool says_nothing(const json& value, const std::string& meant, const std::vector<Option>& options) {
  if (value.is_null() || value == "auto" || (value.is_structured() && value.empty())) return true;
  const auto option = std::ranges::find(options, meant, &Option::path);
  return value == json(false) && (option == options.end() || value_of(*option) == value);
}

}  // namespace

std::vector<std::string> known_paths(const std::vector<Option>& options) {
  std::vector<std::string> paths = paths_of(options);
  if (!reads_deepspeed(options)) return paths;
  for (const Alias& alias : aliases()) paths.push_back(alias.path);
  for (const DeepSpeedKey& key : deepspeed_keys()) paths.push_back(key.path);
  return paths;
}

std::string alike_known(const std::string& path, const std::vector<std::string>& known) {
  return path.size() > kLongestName ? "" : alike(path, known);
}

void check_unknown(const std::string& path, const json& value, const std::vector<Option>& options) {
  if (path.size() > kLongestName) return;
  if (const std::string meant = misspelled(path, options); !meant.empty()) {
    if (says_nothing(value, meant, options)) return;
    refuse("unknown key {} (nearest known: {}): correct its name, or leave it out", shown(path),
           meant);
  }
  if (const std::string meant = misplaced(path, value, options); !meant.empty()) {
    if (says_nothing(value, meant, options)) return;
    refuse("unknown key {}: move it to {}, or leave it out", shown(path), meant);
  }
  if (!value.is_object()) return;
  for (const auto& [key, child] : value.items()) {
    const std::string inside = fmt::format("{}.{}", path, key);
    const std::string meant = misplaced(inside, child, options);
    if (meant.empty() || says_nothing(child, meant, options)) continue;
    refuse("unknown key {}: move it to {}, or leave it out", shown(inside), meant);
  }
}

}  // namespace zeropp::config

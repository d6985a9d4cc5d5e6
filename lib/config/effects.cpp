#include "lib/config/effects.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

/// Whether a configuration file set the option, under a key of DeepSpeed's.
bool may_be_idle(const Option& option) {
  return (option.given || option.is_automatic) && !option.key.empty() &&
         !option.key.starts_with("zeropp.");
}

bool is_idle(const Option& option, const std::vector<Option>& all) {
  if (option.ruled_out && option.ruled_out(all)) return true;
  return option.in_effect && !option.in_effect() && !option.refused_idle;
}

/// Leaves an option out of the configuration. Returns false where its value is the one that holds
/// anyway, as in an effective configuration that is read again.
bool leave_out(Option& option) {
  const nlohmann::json said = value_of(option);
  const bool was_automatic = option.is_automatic;
  option.undo();
  option.given = option.is_automatic = false;
  option.key.clear();
  return !option.ruled_out || was_automatic || value_of(option) != said;
}

}  // namespace

void choose_automatic(const std::vector<Option>& options) {
  for (const Option& option : options) {
    if (option.is_automatic) option.automatic();
  }
}

bool is_without_effect(const Option& option) {
  return option.given && option.in_effect && !option.in_effect();
}

void check_effects(const std::vector<Option>& options) {
  for (const auto& option : options) {
    if (is_without_effect(option)) {
      refuse("{}: is set but would have no effect: it needs {}; set that, or leave {} ({}) out",
             option.path, option.effect_lacks ? option.effect_lacks() : option.effect_needs,
             option.path, option.flag);
    }
  }
}

std::vector<std::string> leave_out_idle(std::vector<Option>& options,
                                        std::vector<Ignored>& ignored) {
  std::vector<std::string> lines;
  std::set<std::string> named;  // a key may set several options
  // An option that is left out may leave others without effect.
  for (bool again = true; again;) {
    again = false;
    for (Option& option : options) {
      if (!may_be_idle(option) || !is_idle(option, options)) continue;
      again = true;
      const std::string key = option.key;
      if (option.why_ruled_out) lines.push_back(option.why_ruled_out(options));
      if (!leave_out(option) || option.why_ruled_out || !named.insert(key).second) continue;
      ignored.push_back({key, "it needs " + option.effect_needs});
    }
  }
  return lines;
}

std::string ignored_line(const std::vector<Ignored>& keys) {
  if (keys.empty()) return {};
  std::vector<std::pair<std::string, std::string>> groups;  // why, keys
  for (const auto& [key, why] : keys) {
    const auto group = std::ranges::find(groups, why, &std::pair<std::string, std::string>::first);
    if (group == groups.end()) {
      groups.emplace_back(why, key);
    } else {
      group->second += ", " + key;
    }
  }
  std::vector<std::string> parts;
  parts.reserve(groups.size());
  for (const auto& [why, of] : groups) parts.push_back(fmt::format("{} ({})", of, why));
  return fmt::format("ignored: {}", fmt::join(parts, "; "));
}

}  // namespace zeropp::config

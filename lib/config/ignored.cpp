#include "lib/config/ignored.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace zeropp::config {

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

#include "kernels/optim/registry.hpp"

#include <algorithm>
#include <stdexcept>

namespace zeropp::optim {

#define ZEROPP_ENTRY(name) \
  namespace rule::name {   \
  struct Rule;             \
  }
#include "optimizer_rules.inc"
#undef ZEROPP_ENTRY

const std::vector<const RuleEntry*>& rules() {
  static const std::vector<const RuleEntry*> list = [] {
    std::vector<const RuleEntry*> found = {
#define ZEROPP_ENTRY(name) &rule_entry<rule::name::Rule>(),
#include "optimizer_rules.inc"
#undef ZEROPP_ENTRY
    };
    std::ranges::sort(found, {}, [](const RuleEntry* entry) { return entry->info.name; });
    return found;
  }();
  return list;
}

namespace {

const RuleEntry* find_rule(std::string_view type) {
  const auto found =
      std::ranges::find(rules(), type, [](const RuleEntry* entry) { return entry->info.name; });
  return found == rules().end() ? nullptr : *found;
}

bool reads(const RuleEntry& entry, std::string_view parameter) {
  const auto& known = entry.info.parameters;
  return std::ranges::find(known, parameter) != known.end();
}

}  // namespace

Variant variant_of(const Options& options) {
  const RuleEntry* const entry = find_rule(options.type);
  if (entry == nullptr) throw std::invalid_argument("no optimizer '" + options.type + "'");
  return entry->variant(options);
}

std::vector<std::string> types() {
  std::vector<std::string> names;
  for (const RuleEntry* entry : rules()) names.emplace_back(entry->info.name);
  return names;
}

bool reads(std::string_view type, std::string_view parameter) {
  const RuleEntry* const entry = find_rule(type);
  return entry != nullptr && reads(*entry, parameter);
}

bool keeps_moments(const Options& options) {
  const RuleEntry* const entry = find_rule(options.type);
  return entry != nullptr && entry->variant(options).states > 0;
}

std::string readers(std::string_view parameter) {
  std::string text;
  for (const RuleEntry* entry : rules()) {
    if (!reads(*entry, parameter)) continue;
    text += (text.empty() ? "" : " or ") + std::string(entry->info.name);
  }
  return text;
}

}  // namespace zeropp::optim

#include "lib/config/deepspeed_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/config/refuse.hpp"
#include "lib/config/shown_value.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;
using Accepts = DeepSpeedKey::Accepts;

bool is_disabled(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_object() && value.value("enabled", json(false)) == json(false);
}

bool passes(const DeepSpeedKey& key, const json& value) {
  switch (key.accepts) {
    case Accepts::anything:
      return true;
    case Accepts::these:
      return std::find(key.values.begin(), key.values.end(), value) != key.values.end();
    case Accepts::disabled:
      return is_disabled(value);
    case Accepts::nothing:
      break;
  }
  return false;
}

/// Advice, for a refusal, on what to write instead.
std::string remedy(const DeepSpeedKey& key) {
  if (key.accepts == Accepts::nothing) return "leave it out";
  if (key.accepts == Accepts::disabled) return "disable it, or leave it out";
  std::vector<std::string> values;
  values.reserve(key.values.size());
  for (const json& value : key.values) values.push_back(shown_value(value));
  return fmt::format("set it to {}, or leave it out", fmt::join(values, " or "));
}

}  // namespace

bool reads_deepspeed(const std::vector<Option>& options) {
  return std::ranges::find(options, "zero_optimization.stage", &Option::path) != options.end();
}

const DeepSpeedKey* find_deepspeed_key(std::string_view path) {
  const auto& keys = deepspeed_keys();
  const auto found = std::ranges::find(keys, path, &DeepSpeedKey::path);
  return found == keys.end() ? nullptr : &*found;
}

std::string accept(const DeepSpeedKey& key, const json& value, const std::string& name) {
  if (passes(key, value)) {
    return fmt::format("{}: {} changes nothing here: {}", name, key.path, key.why);
  }
  refuse("{}: {} {} is refused: {}; {}", name, key.path, shown_value(value), key.why, remedy(key));
}

}  // namespace zeropp::config

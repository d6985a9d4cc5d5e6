#include "lib/config/deepspeed_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/text.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;
using Ignores = DeepSpeedKey::Ignores;

/// A switch stands in the section, or in sections of it: those of compression_training have their
/// own.
bool turns_on(const json& value) {
  if (!value.is_structured()) return false;
  return (value.is_object() && value.value("enabled", json()) == json(true)) ||
         std::ranges::any_of(value, turns_on);
}

bool is_off(const json& value) {
  return value == json(false) || (value.is_object() && !turns_on(value));
}

bool is_one_of(const std::vector<json>& values, const json& value) {
  return std::ranges::any_of(values, [&](const json& one) {
    return one == value || (one.is_string() && value.is_string() &&
                            one.get<std::string>() == lower(value.get<std::string>()));
  });
}

bool ignores(const DeepSpeedKey& key, const json& value) {
  switch (key.ignores) {
    case Ignores::anything:
      return true;
    case Ignores::off:
      return is_off(value);
    case Ignores::these:
      break;
  }
  return is_one_of(key.values, value);
}

/// Advice, for a refusal, on what to write instead.
std::string remedy(const DeepSpeedKey& key) {
  if (key.ignores == Ignores::off) return "disable it, or leave it out";
  if (key.values.empty()) return "leave it out";
  std::vector<std::string> values;
  values.reserve(key.values.size());
  for (const json& value : key.values) values.push_back(shown_value(value));
  return fmt::format("set it to {}, or leave it out", fmt::join(values, " or "));
}

}  // namespace

bool reads_deepspeed(const std::vector<Option>& options) {
  return std::ranges::find(options, "zero_optimization.stage", &Option::path) != options.end();
}

std::string left_out_line(const std::vector<Option>& options) {
  const auto is_ours = [](const Option& option) { return option.key.starts_with("zeropp."); };
  if (std::ranges::any_of(options, is_ours)) return "";
  std::vector<std::string> texts;
  const Option& stage = option_at(options, "zero_optimization.stage");
  if (!stage.given) {
    texts.push_back(
        fmt::format("{} ({} here, 0 in DeepSpeed)", stage.path, value_of(stage).dump()));
  }
  const Option& second = option_at(options, "optimizer.params.betas.1");
  if (!option_at(options, "optimizer.type").key.empty() && !second.given && second.in_effect()) {
    texts.push_back(fmt::format(
        "optimizer.params.betas ({} and {} here, 0.9 and 0.999 in DeepSpeed)",
        value_of(option_at(options, "optimizer.params.betas.0")).dump(), value_of(second).dump()));
  }
  if (texts.empty()) return "";
  return fmt::format("leaves out {}: write what is meant", fmt::join(texts, " and "));
}

const DeepSpeedKey* find_deepspeed_key(std::string_view path) {
  const auto& keys = deepspeed_keys();
  const auto found = std::ranges::find(keys, path, &DeepSpeedKey::path);
  return found == keys.end() ? nullptr : &*found;
}

void check_ignored(const DeepSpeedKey& key, const json& value, const std::string& name) {
  if (ignores(key, value)) return;
  refuse("{}{} is refused: {}; {}", name, value.is_object() ? "" : " " + shown_value(value),
         key.why, remedy(key));
}

}  // namespace zeropp::config

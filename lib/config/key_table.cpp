// The table of all keys that are known, in Markdown.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/config/aliases.hpp"
#include "lib/config/deepspeed_keys.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;
using Ignores = DeepSpeedKey::Ignores;

/// A default without quotes; what a cell may not have in it is escaped.
std::string cell(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string row(const std::string& key, const std::string& standing, const std::string& values,
                const std::string& fallback, const std::string& meaning) {
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", key, standing, values, fallback, meaning);
}

std::string standing_of(const DeepSpeedKey& key) {
  switch (key.ignores) {
    case Ignores::anything:
      return "ignored";
    case Ignores::off:
      return "ignored where off; else refused";
    case Ignores::these:
      break;
  }
  if (key.values.empty()) return "refused";
  std::vector<std::string> values;
  values.reserve(key.values.size());
  for (const json& value : key.values) values.push_back(fmt::format("`{}`", value.dump()));
  return fmt::format("ignored: {}; else refused", fmt::join(values, ", "));
}

}  // namespace

std::string describe_keys(const std::vector<Option>& options) {
  std::string text =
      "| key | here | values | default | meaning, or why |\n| --- | --- | --- | --- | --- |\n";
  for (const Option& option : options) {
    if (option.path.starts_with("zeropp.")) continue;
    text += row(option.path, "works", describe_values(option), cell(value_of(option)), option.help);
  }
  for (const Alias& alias : aliases()) {
    text += row(alias.path, "works", alias.values.empty() ? "as that" : alias.values, "",
                "Another name of " + alias.meaning);
  }
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    text += row(key.path, standing_of(key), "", "", key.why);
  }
  return text;
}

}  // namespace zeropp::config

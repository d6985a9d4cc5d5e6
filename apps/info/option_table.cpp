#include "apps/info/option_table.hpp"

#include <cmath>
#include <string>
#include <variant>

#include "lib/config/groups.hpp"
#include "lib/config/options.hpp"

namespace zeropp::info {
namespace {

using nlohmann::json;

struct KindOf {
  const char* operator()(bool*) const { return "boolean"; }
  const char* operator()(int*) const { return "integer"; }
  const char* operator()(std::size_t*) const { return "integer"; }
  const char* operator()(double*) const { return "number"; }
  const char* operator()(std::string*) const { return "text"; }
  const char* operator()(codec::CodecSpec*) const { return "codec"; }
  const char* operator()(const config::EnumField&) const { return "text"; }
  const char* operator()(const config::Structured&) const { return "structured"; }
};

json bound(double value, bool excluded) {
  return std::isfinite(value) && !excluded ? json(value) : json();
}

}  // namespace

json option_table() {
  config::TrainConfig config;
  json table = json::array();
  for (const config::Option& option : config::options(config)) {
    table.push_back({{"path", option.path},
                     {"group", config::group_of(option.path, config::option_groups()).name},
                     {"flag", option.flag},
                     {"other_flags", option.other_flags},
                     {"kind", std::visit(KindOf{}, option.field)},
                     {"default", config::value_of(option)},
                     {"choices", config::choices_of(option)},
                     {"unit", option.unit},
                     {"minimum", bound(option.range.minimum, option.range.minimum_excluded)},
                     {"maximum", bound(option.range.maximum, option.range.maximum_excluded)},
                     {"values", config::describe_values(option)},
                     {"help", option.help}});
  }
  return table;
}

json option_groups() {
  json groups = json::array();
  for (const config::OptionGroup& group : config::option_groups()) {
    groups.push_back({{"name", group.name}, {"title", group.title}, {"summary", group.summary}});
  }
  return groups;
}

}  // namespace zeropp::info

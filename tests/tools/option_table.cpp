// Prints the trainer's option table as JSON, so that scripts can make command lines of it: an array
// of
//   {path, flag, kind, default, choices, unit, minimum, maximum}
// kind: boolean, integer, number, text, codec, structured. Bounds that are excluded or infinite are
// null.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lib/config/options.hpp"

namespace {

using namespace zeropp::config;
using nlohmann::json;

struct KindOf {
  const char* operator()(bool*) const { return "boolean"; }
  const char* operator()(int*) const { return "integer"; }
  const char* operator()(std::size_t*) const { return "integer"; }
  const char* operator()(double*) const { return "number"; }
  const char* operator()(std::string*) const { return "text"; }
  const char* operator()(zeropp::codec::CodecSpec*) const { return "codec"; }
  const char* operator()(const Structured&) const { return "structured"; }
};

json bound(double value, bool excluded) {
  return std::isfinite(value) && !excluded ? json(value) : json();
}

}  // namespace

int main() {
  TrainConfig config;
  json table = json::array();
  for (const Option& option : options(config)) {
    table.push_back({{"path", option.path},
                     {"flag", option.flag},
                     {"kind", std::visit(KindOf{}, option.field)},
                     {"default", value_of(option)},
                     {"choices", option.choices},
                     {"unit", option.unit},
                     {"minimum", bound(option.range.minimum, option.range.minimum_excluded)},
                     {"maximum", bound(option.range.maximum, option.range.maximum_excluded)}});
  }
  std::cout << table.dump() << '\n';
}

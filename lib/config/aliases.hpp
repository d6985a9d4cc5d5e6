// Other names of options in a configuration file: DeepSpeed's where the option's own is in
// `zeropp`, its field names beside their aliases, old ones, and those of the public overview of
// ZeRO++. A name sets its option, or several; beside the option itself it has to say the same.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

struct Alias;

/// Names that a file has, with their values.
using NamedValues = std::vector<std::pair<const Alias*, nlohmann::json>>;

/// Setting of one option by a name.
struct Setting {
  std::string path = {};  ///< of an option
  nlohmann::json value = {};
  bool quiet = false;  ///< it may be without effect
};

struct Alias {
  std::string path = {};
  std::string meaning = {};  ///< what it means, with the option's path
  std::string values = {};   ///< what it takes, for messages; empty: what the option takes
  /// `all`: the names that the file has; `options`: as its other keys left them. Nothing where the
  /// value is none of `values`.
  std::function<std::vector<Setting>(const nlohmann::json& value, const NamedValues& all,
                                     const std::vector<Option>& options)>
      settings = {};
};

const std::vector<Alias>& aliases();

/// Alias of that path; null where there is none.
const Alias* find_alias(std::string_view path);

/// Sets the options of the name `alias`, which is one of `named`. Names are applied in the order of
/// aliases(), after all other keys. Throws Error(usage): a value that the name or the option
/// refuses, or another one than the option has.
void apply_alias(const Alias& alias, const nlohmann::json& value, const NamedValues& named,
                 std::vector<Option>& options);

}  // namespace zeropp::config

// Other names of options in a configuration file: DeepSpeed's where the option's own is in
// `zeropp`, and those of the public overview of ZeRO++. A name sets its option, or several; beside
// the option itself it has to say the same.
#pragma once

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
  std::string values = {};   ///< what it takes, for the table of keys and messages
  std::string meaning = {};  ///< what it means, with the option's path
  /// `all`: the names that the file has; `options`: as its other keys left them. Empty where the
  /// value is none of `values`.
  std::vector<Setting> (*settings)(const nlohmann::json& value, const NamedValues& all,
                                   const std::vector<Option>& options) = nullptr;
};

const std::vector<Alias>& aliases();

/// Alias of that path; null where there is none.
const Alias* find_alias(std::string_view path);

/// Sets the options of the names, after all other keys. `name` stands for the file. Throws
/// Error(usage): a value that the name or the option refuses, or another one than the option has.
void apply_aliases(const NamedValues& named, const std::string& name, std::vector<Option>& options);

}  // namespace zeropp::config

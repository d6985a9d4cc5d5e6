// The trainer's option table as JSON, so that scripts can make command lines and pages of it.
#pragma once

#include <nlohmann/json.hpp>

namespace zeropp::info {

/// An array of {path, group, flag, other_flags, kind, default, choices, unit, minimum, maximum,
/// values, help}. kind: boolean, integer, number, text, codec, structured. Bounds that are excluded
/// or infinite are null; `values` is what --help says of them all.
nlohmann::json option_table();

/// An array of {name, title, summary}: the groups that the options are in.
nlohmann::json option_groups();

}  // namespace zeropp::info

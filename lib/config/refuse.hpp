// Refusals: the errors that lib/config throws for a configuration that cannot be, and the values in
// them.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/text.hpp"

namespace zeropp::config {

/// Throws Error(usage).
template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Error(ExitCode::usage, fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Text of a value as far as a line has room; bytes that are no UTF-8 are replaced.
inline std::string shown_value(const nlohmann::json& value) {
  return shown(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace zeropp::config

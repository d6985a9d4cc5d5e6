// Refusals: the errors that lib/config throws for a configuration that cannot be.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "lib/base/error.hpp"

namespace zeropp::config {

/// Throws Error(usage).
template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Error(ExitCode::usage, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace zeropp::config

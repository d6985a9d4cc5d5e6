// Refusals of a data file: one line, the same words for every source.
#pragma once

#include <fmt/format.h>

#include <string>

#include "lib/base/error.hpp"

namespace zeropp::data {

/// Throws Error(io): "data file 'PATH' WHY", where WHY says what is wrong and the remedy.
[[noreturn]] inline void refuse_file(const std::string& path, const std::string& why) {
  throw Error(ExitCode::io, fmt::format("data file '{}' {}", path, why));
}

}  // namespace zeropp::data

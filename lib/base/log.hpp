// Lines on standard error, "<program>: <level>: <message>", through spdlog. Warnings and notes come
// from one rank only (the others are muted); errors always appear. One logger a process.
#pragma once

#include <string>

namespace zeropp::log {

/// The name before every line, such as "zpp_train". First in a program: nothing is muted.
void set_program(const std::string& name);
/// Muted: warn() and info() print nothing (ranks other than 0).
void set_muted(bool muted);
[[nodiscard]] bool is_muted();

void info(const std::string& message);
void warn(const std::string& message);
void error(const std::string& message);

}  // namespace zeropp::log

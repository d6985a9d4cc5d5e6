// Text of --help, --help GROUP and --help-all. CLI11 keeps the flags with their groups and texts;
// its own formatter neither fills lines nor prints a single group.
#pragma once

#include <string>

#include "lib/app/app.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace zeropp::app {

/// Flags that every program has: files, outputs, help.
const config::OptionGroup& general_group();

/// The group as CLI11 knows it, and as it is printed: "Model (--help model)".
std::string heading_of(const config::OptionGroup& group);

/// Brief help: what the program does, examples, and the flags that most people need, a line each.
std::string brief_help(const CLI::App& cli, const App& app);
/// Every flag of one group. Throws Error(usage) where no group has this name.
std::string group_help(const CLI::App& cli, const App& app, const std::string& name);
/// Every flag.
std::string full_help(const CLI::App& cli, const App& app);

}  // namespace zeropp::app

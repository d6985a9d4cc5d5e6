#include "lib/app/help.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "lib/base/nearest.hpp"

namespace zeropp::app {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kTextColumn = 32;  ///< where what a flag means begins

using Flags = std::vector<const CLI::Option*>;

/// `text` in lines of at most kColumns that begin at `column`, but for the first, which begins
/// where the caller is. Line breaks of the text stay.
std::string filled(const std::string& text, std::size_t column) {
  const std::string next_line = "\n" + std::string(column, ' ');
  std::string out;
  std::size_t width = column;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!out.empty()) {
      out += next_line;
      width = column;
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (width > column && width + 1 + word.size() > kColumns) {
        out += next_line;
        width = column;
      } else if (width > column) {
        out += ' ';
        ++width;
      }
      out += word;
      width += word.size();
    }
  }
  return out;
}

/// "Seed of the data" of "Seed of the data; 0: the day's".
std::string first_clause(const std::string& text) {
  return text.substr(0, std::min({text.find("; "), text.find(". "), text.find('\n')}));
}

std::string row(std::string names, const CLI::Option& flag, const std::string& text) {
  names.insert(0, "  ");
  if (!flag.get_type_name().empty()) names += " " + flag.get_type_name();
  if (names.size() + 2 > kTextColumn) names += "\n" + std::string(kTextColumn, ' ');
  names.resize(std::max(names.size(), kTextColumn), ' ');
  return names + filled(text, kTextColumn) + "\n";
}

/// Row of a flag in brief: its names, a letter beside them, and what it is; what 0 stands for is in
/// the rest of the text.
std::string brief_row(const CLI::Option& flag) {
  std::string names = fmt::format("--{}", fmt::join(flag.get_lnames(), ",--"));
  if (!flag.get_snames().empty()) names.insert(0, "-" + flag.get_snames().front() + ",");
  const std::string value = flag.get_default_str();
  std::string text = first_clause(flag.get_description());
  const bool is_off = value.empty() || value == "false" || value == "0" || value == "0.0";
  if (!is_off) text += " [" + value + "]";
  return row(names, flag, text);
}

std::string full_row(const CLI::Option& flag) {
  return row(flag.get_name(false, true), flag, flag.get_description());
}

Flags flags_of(const CLI::App& cli, const config::OptionGroup& group) {
  return cli.get_options(
      [&](const CLI::Option* flag) { return flag->get_group() == heading_of(group); });
}

std::string section(const CLI::App& cli, const config::OptionGroup& group) {
  std::string text = heading_of(group) + ":\n";
  for (const CLI::Option* flag : flags_of(cli, group)) text += full_row(*flag);
  return text;
}

std::string head(const App& app) {
  std::string text = filled(fmt::format("zpp_{}: {}.", app.name, app.summary), 0) + "\n";
  if (!app.examples.empty()) {
    text += fmt::format("\nExamples:\n  {}\n", fmt::join(app.examples, "\n  "));
  }
  if (!app.details.empty()) text += "\n" + app.details + "\n";
  return text + "\n";
}

/// The general group, then the program's.
std::vector<config::OptionGroup> help_groups(const App& app) {
  std::vector<config::OptionGroup> groups{general_group()};
  groups.insert(groups.end(), app.groups.begin(), app.groups.end());
  return groups;
}

std::vector<std::string> names_of(const std::vector<config::OptionGroup>& groups) {
  std::vector<std::string> names;
  names.reserve(groups.size());
  for (const config::OptionGroup& group : groups) names.push_back(group.name);
  return names;
}

/// `selected`: what stands before is a selection of the flags.
std::string foot(const App& app, bool selected) {
  const char* which = selected ? "These are the flags that most people need. One" : "A flag";
  return fmt::format("{} that is true or false is turned off by --no-FLAG.\n", which) +
         filled(fmt::format("--help-all prints every flag in full, --help GROUP one group: {}.",
                            fmt::join(names_of(help_groups(app)), ", ")),
                0) +
         "\n";
}

/// Whether --help lists a flag. Its last lines name those of help.
bool is_common(const CLI::Option& flag, const App& app) {
  if (flag.get_group() == heading_of(general_group())) {
    return !flag.check_name("--help") && !flag.check_name("--help-all");
  }
  return app.common_flags.empty() ||
         std::ranges::any_of(app.common_flags,
                             [&](const std::string& name) { return flag.check_name(name); });
}

}  // namespace

const config::OptionGroup& general_group() {
  static const config::OptionGroup group{"general", "General", "Files, outputs and help."};
  return group;
}

std::string heading_of(const config::OptionGroup& group) {
  return fmt::format("{} (--help {})", group.title, group.name);
}

std::string brief_help(const CLI::App& cli, const App& app) {
  std::string text = head(app);
  for (const config::OptionGroup& group : help_groups(app)) {
    std::string rows;
    for (const CLI::Option* flag : flags_of(cli, group)) {
      if (is_common(*flag, app)) rows += brief_row(*flag);
    }
    if (!rows.empty()) text += heading_of(group) + ":\n" + rows;
  }
  return text + "\n" + foot(app, !app.common_flags.empty());
}

std::string group_help(const CLI::App& cli, const App& app, const std::string& name) {
  const auto groups = help_groups(app);
  const auto found = std::ranges::find(groups, name, &config::OptionGroup::name);
  if (found == groups.end()) {
    throw Error(ExitCode::usage,
                fmt::format("no group of flags is called \"{}\" (nearest: {}): see --help", name,
                            nearest(name, names_of(groups))));
  }
  return section(cli, *found);
}

std::string full_help(const CLI::App& cli, const App& app) {
  std::string text = head(app);
  for (const config::OptionGroup& group : help_groups(app)) text += section(cli, group) + "\n";
  return text + foot(app, false);
}

}  // namespace zeropp::app

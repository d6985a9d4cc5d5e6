// The command line of every program: --help, --help-all, --version, --config, --output, --json,
// --timeout and one flag per option. Touches neither MPI nor the network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/app/app.hpp"

namespace zeropp::app {

struct CommandLine {
  std::optional<std::string> answer;  ///< of --help, --version and the like: print this and end
  std::vector<std::string> warnings;  ///< of what is accepted and changes nothing
  std::optional<std::filesystem::path> output;
  std::optional<std::filesystem::path> json;
  double timeout = 600;  ///< seconds; 0: no limit
};

/// Sets app.options: first from --config, then from the flags. Throws Error(usage) or Error(io).
CommandLine parse_command_line(App& app, int argc, char** argv);

}  // namespace zeropp::app

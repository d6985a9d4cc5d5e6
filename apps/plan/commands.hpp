// The commands of zpp_plan: `zpp_plan NAME flags`, each a program of its own with its own flags.
// `zpp_plan flags` is `zpp_plan estimate flags`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/app/app.hpp"

namespace zeropp::plan_app {

struct Command {
  std::string_view name;
  std::string_view summary;  ///< a line, without a full stop
  std::vector<std::string> examples;
  /// Runs the command as main() would: argv[0] is the program's, the command's name is left out.
  int (*run)(int argc, char** argv);
  /// Flags of its options.
  std::vector<std::string> (*flags)();
};

/// Flags of the options that are bound to a Request.
template <class Request>
std::vector<std::string> flags_for() {
  Request asked;
  return config::flags_of(options(asked));
}

/// Commands in the order in which --help names them; the first is the one that runs without a name.
const std::vector<Command>& commands();

/// Completes what the --help of `command` says, which names the other commands, from app.options.
void describe(app::App& app, std::string_view command);

/// Flags that name the configuration, as zpp_train's do, of the commands that read one.
inline constexpr const char* kConfigFlags = "--config,--deepspeed_config";

/// Refuses outputs of a command without a trace, or without a summary: throws Error(usage) where
/// --output, or --json, was given.
void refuse_output(const app::Call& call);
void refuse_json(const app::Call& call);

/// Runs the command that argv names.
int run(int argc, char** argv);

// Defined in files of their own.
int run_estimate(int argc, char** argv);
int run_compare(int argc, char** argv);
int run_search(int argc, char** argv);
int run_time(int argc, char** argv);
int run_calibrate(int argc, char** argv);
int run_break_even(int argc, char** argv);
int run_savings(int argc, char** argv);
int run_report(int argc, char** argv);
std::vector<std::string> compare_flags();
std::vector<std::string> calibrate_flags();
std::vector<std::string> break_even_flags();
std::vector<std::string> savings_flags();

}  // namespace zeropp::plan_app

#include "apps/plan/commands.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/nearest.hpp"

namespace zeropp::plan {

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"estimate", "what one configuration sends and needs", run_estimate},
      {"search", "which configurations fit, and which of them send or need least", run_search},
      {"time", "how long a step takes on a cluster", run_time},
      {"calibrate", "a cluster file with the rates that were measured", run_calibrate},
      {"breakeven", "below which rate between nodes each part of ZeRO++ pays", run_break_even},
      {"savings", "what ZeRO++ saves, from the number of parameters alone", run_savings},
      {"report", "one HTML page about any set of traces", run_report},
  };
  return all;
}

std::string summary_of(std::string_view command) {
  std::string text;
  for (const Command& each : commands()) {
    if (each.name == command) {
      text.insert(0, fmt::format("zpp_plan {}: {}.", each.name, each.summary));
    } else {
      text += fmt::format("\n  zpp_plan {} --help: {}", each.name, each.summary);
    }
  }
  return text;
}

void refuse_output(const app::Call& call) {
  if (!call.output) return;
  throw Error(ExitCode::usage,
              "--output would have no effect: this command leaves no trace: leave it out");
}

void refuse_json(const app::Call& call) {
  if (!call.json) return;
  throw Error(ExitCode::usage,
              "--json would have no effect: this command leaves no summary: leave it out");
}

int run(int argc, char** argv) {
  const bool named = argc > 1 && !std::string_view(argv[1]).starts_with("-");
  if (!named) return commands().front().run(argc, argv);
  const std::string_view name = argv[1];
  const auto found = std::ranges::find(commands(), name, &Command::name);
  if (found == commands().end()) {
    std::vector<std::string> names;
    for (const Command& each : commands()) names.emplace_back(each.name);
    log::set_program("zpp_plan");
    log::error(fmt::format("unknown command \"{}\" (nearest: {}): see --help", name,
                           nearest(std::string(name), names)));
    return static_cast<int>(ExitCode::usage);
  }
  std::vector<char*> rest{argv[0]};
  rest.insert(rest.end(), argv + 2, argv + argc);
  const int count = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  return found->run(count, rest.data());
}

}  // namespace zeropp::plan

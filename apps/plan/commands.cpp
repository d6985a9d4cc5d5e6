#include "apps/plan/commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/plan/cluster_job.hpp"
#include "apps/plan/job.hpp"
#include "apps/plan/search_job.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/nearest.hpp"

namespace zeropp::plan_app {

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"estimate",
       "what one configuration sends and needs",
       {"zpp_plan --nodes 64 --num-layers 40 --hidden-size 6144 --bf16 --zero-quantized-weights",
        "zpp_plan --config ds.json --model-preset gpt-13b --nodes 64"},
       run_estimate,
       flags_for<Job>},
      {"compare",
       "what ZeRO++ and other sharding save of a step, and how to turn it on",
       {"zpp_plan compare --model-preset gpt-7b --bf16 --nodes 16 --gpu h100 --node-gbit 400",
        "zpp_plan compare --config ds.json --hf-config config.json --nodes 16 --cluster mine.json"},
       run_compare,
       compare_flags},
      {"search",
       "which configurations fit, and which of them send or need least",
       {"zpp_plan search --nodes 16,64 --num-layers 80 --hidden-size 8192 --memory-limit 80 --bf16",
        "zpp_plan search --nodes 16 --gpu h100 --node-gbit 400 --goal time --model-preset gpt-7b "
        "--bf16"},
       run_search,
       flags_for<SearchJob>},
      {"time",
       "how long a step takes on a cluster",
       {"zpp_plan time --cluster inputs/clusters/h200-dgx.json --nodes 16 --model-preset gpt-70b "
        "--bf16"},
       run_time,
       flags_for<ClusterJob>},
      {"calibrate",
       "a cluster file with the rates that were measured",
       {"zpp_plan calibrate kernels.json --cluster inputs/clusters/h200-dgx.json --calibrated "
        "mine.json"},
       run_calibrate,
       calibrate_flags},
      {"breakeven",
       "below which rate between nodes each part of ZeRO++ pays",
       {"zpp_plan breakeven --cluster inputs/clusters/h200-dgx.json --nodes 16 "
        "--model-preset gpt-7b --bf16"},
       run_break_even,
       break_even_flags},
      {"savings",
       "what ZeRO++ saves, from the number of parameters alone",
       {"zpp_plan savings --model-params 18e9 --world-size 384 --baseline bf16 --weight-codec int8",
        "zpp_plan savings --table"},
       run_savings,
       savings_flags},
      {"report",
       "one HTML page about any set of traces",
       {"zpp_plan report out/mine/train.h5 --output out"},
       run_report,
       [] { return std::vector<std::string>{}; }},
  };
  return all;
}

namespace {

/// Flags of the trainer that a plan is commonly asked for with.
const std::vector<std::string> kCommonFlags{"--num-layers",
                                            "--hidden-size",
                                            "--num-attention-heads",
                                            "--seq-length",
                                            "--recompute-activations",
                                            "--micro-batch-size",
                                            "--gradient-accumulation-steps",
                                            "--zero-stage",
                                            "--zero-quantized-weights",
                                            "--zero-hpz-partition-size",
                                            "--zero-quantized-gradients",
                                            "--bf16"};

/// The commands but `command` that have a flag, or which of them takes several numbers of nodes.
std::string other_commands(std::string_view command, const std::string& flag,
                           const std::string& value) {
  if (!value.empty()) {
    const bool several = flag == "--nodes" && value.find(',') != std::string::npos;
    return several ? "zpp_plan search takes several numbers" : "";
  }
  std::vector<std::string> names;
  for (const Command& each : commands()) {
    const std::vector<std::string> flags = each.flags();
    if (each.name == command || std::ranges::find(flags, flag) == flags.end()) continue;
    names.push_back(fmt::format("zpp_plan {}", each.name));
  }
  if (names.empty()) return "";
  return fmt::format("{} {} it", fmt::join(names, ", "), names.size() > 1 ? "have" : "has");
}

}  // namespace

void describe(app::App& app, std::string_view command) {
  const std::string own = "plan.";
  app.summary = "Plans training runs before there is a cluster";
  app.elsewhere = [command](const std::string& flag, const std::string& value) {
    return other_commands(command, flag, value);
  };
  std::string names;
  for (const Command& each : commands()) {
    names += fmt::format("\n  {:10} {}", each.name, each.summary);
    if (each.name != command) continue;
    app.examples = each.examples;
    app.details = fmt::format("zpp_plan {}: {}.\n\n", each.name, each.summary);
  }
  app.details += "Commands (zpp_plan COMMAND --help):" + names;
  if (std::ranges::none_of(app.options, [&](const config::Option& option) {
        return option.path.starts_with("zero_optimization.");
      })) {
    return;
  }
  app.groups = config::option_groups();
  app.groups.insert(app.groups.begin(), {"plan", "Plan", "What is planned, on what.", {own}});
  app.common_flags = kCommonFlags;
  for (const config::Option& option : app.options) {
    if (option.path.starts_with(own)) app.common_flags.push_back(option.flag);
  }
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

}  // namespace zeropp::plan_app

// zpp_plan search: which configurations fit a cluster, and which of them send or need least.
#include "lib/plan/search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "apps/plan/commands.hpp"
#include "apps/plan/search_job.hpp"
#include "apps/plan/search_outputs.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/data/token_source.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/trace/sinks/hdf5_sink.hpp"
#include "lib/trace/sinks/json_sink.hpp"

namespace zeropp::plan {

namespace {

void order(std::vector<Candidate>& candidates, Goal goal) {
  std::ranges::stable_sort(candidates, [&](const Candidate& a, const Candidate& b) {
    const auto by_bytes = [](const Candidate& c) {
      return std::tuple(c.step.inter, c.step.intra, c.hardware_flops, c.memory);
    };
    const auto by_memory = [](const Candidate& c) { return std::tuple(c.memory, c.step.inter); };
    const auto by_time = [](const Candidate& c) { return std::tuple(c.seconds, c.memory); };
    switch (goal) {
      case Goal::time:
        return by_time(a) < by_time(b);
      case Goal::memory:
        return by_memory(a) < by_memory(b);
      case Goal::bytes:
        break;
    }
    return by_bytes(a) < by_bytes(b);
  });
}

/// The options that take memory from a GPU, which no candidate tries, but for those that are set.
std::string memory_options(const config::TrainConfig& base) {
  std::vector<std::string> options;
  const auto unless = [&](bool set, const char* option) {
    if (!set) options.emplace_back(option);
  };
  unless(base.zero.update_in_backward, "--update-in-backward");
  unless(base.optimizer.moments != optim::Moments::fp32, "--moments bf16");
  unless(base.zero.offload_optimizer.enabled(), "--offload-optimizer cpu");
  unless(base.zero.hpz_device == zero::HpzDevice::cpu, "--hpz-device cpu");
  return options.empty()
             ? ""
             : fmt::format(", or give what needs less memory ({}; docs/howto/memory.md)",
                           fmt::join(options, ", "));
}

/// Function that gives the seconds of a step; empty without a cluster.
StepSeconds time_on(const SearchJob& asked, const comm::Topology& topology) {
  if (!asked.base.source.is_named()) return {};
  return seconds_on(asked.base.cluster, topology);
}

ExitCode search_job(const SearchJob& asked, const std::vector<comm::Topology>& topologies,
                    const app::Call& call) {
  const app::OutputLock lock = app::preflight_outputs(call);
  const config::TrainConfig& base = asked.base.job.config;
  const std::size_t vocab = data::vocab_size(base.data);
  std::vector<Found> found;
  for (const comm::Topology& topology : topologies) {
    const config::Machine machine = machine_for(asked.base, topology);
    const SearchSpace space = space_of(asked, call.options(), topology, machine);
    found.push_back({topology, search(base, space, topology, machine, vocab, limits_of(asked),
                                      time_on(asked, topology))});
    order(found.back().result.best, asked.goal);
  }
  std::fputs(to_text(found, asked.rows).c_str(), stdout);
  trace::TraceData head = app::run_trace(call);
  head.seed = base.seed;
  const bool none =
      std::ranges::all_of(found, [](const Found& each) { return each.result.fitting == 0; });
  if (none) head.verdict = "INVALID: no configuration fits";
  const trace::Document document = to_document(found, head);
  trace::write_hdf5(document, call.trace_path());
  if (call.json) trace::write_json(trace::to_json(document), *call.json);
  if (!none) return ExitCode::ok;
  log::error(
      "no configuration of the space fits: raise --memory-limit, lower the minimum bits, take "
      "more nodes, or leave flags out that decide something" +
      memory_options(base));
  return ExitCode::check_failed;
}

}  // namespace

int run_search(int argc, char** argv) {
  SearchJob asked;
  std::vector<comm::Topology> topologies;
  app::App app{.name = "plan", .options = options(asked), .config_flags = kConfigFlags};
  describe(app, "search");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    take_job(asked.base.job, given);
    config::choose_automatic(given);  // once: candidates are copies, which it does not reach
    topologies = topologies_of(asked, given);
    check_effects(asked, given, topologies);
  };
  app.run_alone = [&](const app::Call& call) { return search_job(asked, topologies, call); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan

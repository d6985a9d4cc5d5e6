// zpp_plan search: which configurations fit a cluster, and which of them send or need least.
#include "lib/plan/search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/plan/commands.hpp"
#include "apps/plan/search_job.hpp"
#include "apps/plan/search_outputs.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/config/optimizer_options.hpp"
#include "lib/config/resolve.hpp"
#include "lib/data/token_source.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/trace/sinks/hdf5_sink.hpp"
#include "lib/trace/sinks/json_sink.hpp"

namespace zeropp::plan_app {

namespace {

void order(std::vector<plan::Candidate>& candidates, Goal goal) {
  std::ranges::stable_sort(candidates, [&](const plan::Candidate& a, const plan::Candidate& b) {
    const auto by_bytes = [](const plan::Candidate& c) {
      return std::tuple(c.step.inter, c.step.intra, c.hardware_flops, c.memory);
    };
    const auto by_memory = [](const plan::Candidate& c) {
      return std::tuple(c.memory, c.step.inter);
    };
    const auto by_time = [](const plan::Candidate& c) { return std::tuple(c.seconds, c.memory); };
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

/// An option that takes memory from a GPU, which no candidate tries.
struct MemoryOption {
  const char* path;
  const char* flag;
  bool (*change)(config::TrainConfig&);  ///< false: it is set already
};

constexpr std::array kMemoryOptions{
    MemoryOption{
        "zeropp.keep_weight_images", "--no-keep-weight-images",
        [](config::TrainConfig& c) { return std::exchange(c.zero.keep_weight_images, false); }},
    MemoryOption{
        "zeropp.update_in_backward", "--update-in-backward",
        [](config::TrainConfig& c) { return !std::exchange(c.zero.update_in_backward, true); }},
    MemoryOption{"zeropp.moments", "--moments bf16",
                 [](config::TrainConfig& c) {
                   return std::exchange(c.optimizer.moments, optim::Moments::bf16) ==
                          optim::Moments::fp32;
                 }},
    MemoryOption{"zero_optimization.offload_optimizer.device", "--offload-optimizer cpu",
                 [](config::TrainConfig& c) {
                   return std::exchange(c.zero.offload_optimizer.device,
                                        zero::OffloadDevice::cpu) == zero::OffloadDevice::none;
                 }},
    MemoryOption{"zeropp.hpz_device", "--hpz-device cpu", [](config::TrainConfig& c) {
                   return std::exchange(c.zero.hpz_device, zero::HpzDevice::cpu) !=
                          zero::HpzDevice::cpu;
                 }}};

/// Whether some stage of the spaces takes the configuration of `asked`, as far as one is checked
/// without its machine.
bool is_possible(const SearchJob& asked, const std::vector<config::Option>& given,
                 const std::vector<comm::Topology>& topologies) {
  return std::ranges::any_of(topologies, [&](const comm::Topology& topology) {
    const plan::SearchSpace space =
        space_of(asked, given, topology, machine_for(asked.base, topology));
    return std::ranges::any_of(space.stages, [&](int stage) {
      config::TrainConfig config = asked.base.job.config;
      config.zero.stage = stage;
      try {
        config::check_moments(config);
        config::check_update_in_backward(config);
        return true;
      } catch (const Error&) {
        return false;
      }
    });
  });
}

/// The memory options that are not set and that the search would take beside those given.
std::string memory_options(SearchJob& asked, const std::vector<config::Option>& given,
                           const std::vector<comm::Topology>& topologies) {
  config::TrainConfig& config = asked.base.job.config;  // which `given` is bound to
  const config::TrainConfig base = config;
  std::vector<std::string> taken;
  for (const MemoryOption& each : kMemoryOptions) {
    std::vector<config::Option> with = given;
    std::ranges::find(with, each.path, &config::Option::path)->given = true;
    try {
      if (each.change(config) && is_possible(asked, with, topologies)) {
        check_effects(asked, with, topologies);
        taken.emplace_back(each.flag);
      }
    } catch (const Error&) {
      // It has no effect, or takes that of another away.
    }
    config = base;
  }
  return taken.empty() ? ""
                       : fmt::format(", or give what needs less memory ({}; docs/howto/memory.md)",
                                     fmt::join(taken, ", "));
}

/// "lower --minimum-weight-bits (8), ": the minima of bits that hold.
std::string minima_text(const SearchJob& asked) {
  std::vector<std::string> minima;
  const auto name = [&](const char* flag, double bits) {
    if (bits > 0) minima.push_back(fmt::format("{} ({:g})", flag, bits));
  };
  name("--minimum-weight-bits", asked.minimum_weight_bits);
  name("--minimum-gradient-bits", asked.minimum_gradient_bits);
  return minima.empty() ? "" : fmt::format("lower {}, ", fmt::join(minima, " and "));
}

/// Function that gives the seconds of a step; empty without a cluster.
plan::StepSeconds step_seconds_function(const SearchJob& asked, const comm::Topology& topology) {
  if (!asked.base.source.is_named()) return {};
  return plan::candidate_step_seconds(asked.base.cluster, topology);
}

ExitCode search_job(SearchJob& asked, const std::vector<comm::Topology>& topologies,
                    const app::Call& call) {
  const app::OutputLock lock = app::preflight_outputs(call);
  const config::TrainConfig& base = asked.base.job.config;
  const std::size_t vocab = data::vocab_size(base.data);
  std::vector<Found> found;
  for (const comm::Topology& topology : topologies) {
    const config::Machine machine = machine_for(asked.base, topology);
    const plan::SearchSpace space = space_of(asked, call.options(), topology, machine);
    found.push_back({topology, plan::search(base, space, topology, machine, vocab, limits_of(asked),
                                            step_seconds_function(asked, topology))});
    order(found.back().result.best, asked.goal);
  }
  std::string text = to_text(found, asked.rows, call.options());
  const std::string batch = batch_text(asked.base.job, call.options());
  if (!batch.empty()) text += batch + ".\n";
  std::fputs(text.c_str(), stdout);
  trace::TraceData head = app::run_trace(call);
  head.seed = base.seed;
  const bool none =
      std::ranges::all_of(found, [](const Found& each) { return each.result.fitting == 0; });
  if (none) head.verdict = "INVALID: no configuration fits";
  const trace::Document document = to_document(found, head);
  trace::write_hdf5(document, call.trace_path());
  if (call.json) trace::write_json(trace::to_json(document), *call.json);
  if (!none) return ExitCode::ok;
  const bool possible =
      std::ranges::any_of(found, [](const Found& each) { return each.result.possible > 0; });
  log::error(
      fmt::format("no configuration of the space fits: raise {}, {}take more nodes, or leave flags "
                  "out that decide something",
                  base.device_memory_limit > 0 ? "--memory-limit and --device-memory-limit"
                                               : "--memory-limit",
                  minima_text(asked)) +
      (possible ? memory_options(asked, call.options(), topologies) : ""));
  return ExitCode::environment;
}

}  // namespace

int run_search(int argc, char** argv) {
  SearchJob asked;
  std::vector<comm::Topology> topologies;
  app::App app{.name = "plan", .options = options(asked), .config_flags = kConfigFlags};
  describe(app, "search");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    take_cluster(asked, given);
    take_job(asked.base.job, given);
    config::choose_automatic(given);  // once: candidates are copies, which it does not reach
    topologies = topologies_of(asked, given);
    take_limits(asked, given);
    check_effects(asked, given, topologies);
  };
  app.run_alone = [&](const app::Call& call) { return search_job(asked, topologies, call); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan_app

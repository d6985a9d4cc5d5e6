// zpp_plan search: which configurations fit a cluster, and which of them send or need least.
#include "lib/plan/search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
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
#include "lib/base/standard_output.hpp"
#include "lib/base/units.hpp"
#include "lib/config/effects.hpp"
#include "lib/config/resolve.hpp"
#include "lib/data/token_source.hpp"
#include "lib/plan/memory_remedies.hpp"

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

plan::SearchResult search_on(const comm::Topology& topology, const SearchJob& asked,
                             const std::vector<config::Option>& given,
                             const plan::Cluster* cluster = nullptr) {
  const config::TrainConfig& base = asked.base.job.config;
  const config::Machine machine = machine_for(asked.base, topology);
  return plan::search(base, space_of(asked, given, topology, machine), topology, machine,
                      data::vocab_size(base.data), limits_of(asked), cluster);
}

/// The least that is needed on one of the topologies, bytes of a rank; nothing where no
/// configuration keeps the bits that are asked for.
std::optional<std::size_t> least_need(const SearchJob& asked,
                                      const std::vector<config::Option>& given,
                                      const std::vector<comm::Topology>& topologies) {
  std::optional<std::size_t> least;
  for (const comm::Topology& topology : topologies) {
    const std::optional<std::size_t> need = search_on(topology, asked, given).least_memory;
    if (need && (!least || *need < *least)) least = need;
  }
  return least;
}

/// Bytes in GiB, rounded up: as a limit this number would let the configuration fit.
std::string gibibytes(std::size_t bytes) {
  return fmt::format("{:.2f} GiB", std::ceil(100 * static_cast<double>(bytes) / kGibibyte) / 100);
}

/// The remedies, and the memory that each needs: with any of them the search would find a
/// configuration that needs less than `least`. An option that varies among the candidates is not
/// offered as a remedy.
std::string memory_remedies(SearchJob& asked, const std::vector<config::Option>& given,
                            const std::vector<comm::Topology>& topologies, std::size_t least) {
  config::TrainConfig& config = asked.base.job.config;  // which `given` is bound to
  const config::TrainConfig base = config;
  std::set<std::string> known;
  std::vector<std::string> texts;
  for (const plan::MemoryRemedy& remedy : plan::memory_remedies()) {
    if (std::ranges::find(remedy, nullptr, &plan::MemoryChange::path) != remedy.end()) continue;
    std::vector<config::Option> with = given;
    for (const plan::MemoryChange& change : remedy) {
      config::option_at(with, change.path).given = true;
    }
    try {
      const std::string flags = plan::apply(remedy, config, topologies.front());
      if (!flags.empty() && known.insert(flags).second) {
        check_effects(asked, with, topologies);
        const std::optional<std::size_t> need = least_need(asked, with, topologies);
        if (need && *need < least) texts.push_back(flags + ": " + gibibytes(*need));
      }
    } catch (const Error& refusal) {
      // The remedy has no effect, or takes away the effect of another option.
      if (refusal.code() != ExitCode::usage) throw;
    }
    config = base;
  }
  if (texts.empty()) return "";
  return fmt::format(", or give what needs less memory ({}; docs/howto/memory.md)",
                     fmt::join(texts, ", "));
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

/// Throws Error(usage) where no configuration of the spaces is possible: what zpp_plan estimate
/// says of the flags alone, or what refuses most candidates.
void require_possible(const std::vector<Found>& found, const SearchJob& asked) {
  std::map<std::string, std::size_t> refusals;
  for (const Found& each : found) {
    if (each.result.possible > 0) return;
    for (const auto& [refusal, count] : each.result.refusals) refusals[refusal] += count;
  }
  config::TrainConfig own = asked.base.job.config;
  config::resolve(own, {}, machine_for(asked.base, found.front().topology));
  const auto most =
      std::ranges::max_element(refusals, {}, [](const auto& refusal) { return refusal.second; });
  if (most != refusals.end()) throw Error(ExitCode::usage, most->first);
}

/// One line: what is missing, and what helps, where something is possible.
std::string why_nothing_fits(SearchJob& asked, const std::vector<config::Option>& given,
                             const std::vector<comm::Topology>& topologies) {
  SearchJob of_any_bits = asked;
  of_any_bits.minimum_weight_bits = of_any_bits.minimum_gradient_bits = 0;
  const std::optional<std::size_t> possible = least_need(of_any_bits, given, topologies);
  const std::optional<std::size_t> least = least_need(asked, given, topologies);
  if (!least) {
    return fmt::format(
        "no configuration of the space keeps the bits asked for: {}or leave flags "
        "out that decide something",
        minima_text(asked));
  }
  return fmt::format(
             "no configuration of the space fits (the least needs {}): raise {}, {}take more "
             "nodes, or leave flags out that decide something",
             gibibytes(*least),
             asked.base.job.config.device_memory_limit > 0
                 ? "--memory-limit and --device-memory-limit"
                 : "--memory-limit",
             possible && *possible < *least ? minima_text(asked) : "") +
         memory_remedies(asked, given, topologies, *least);
}

ExitCode search_job(SearchJob& asked, const std::vector<comm::Topology>& topologies,
                    const app::Call& call) {
  const app::OutputLock lock = app::preflight_outputs(call);
  const plan::Cluster* const cluster = asked.base.source.is_named() ? &asked.base.cluster : nullptr;
  std::vector<Found> found;
  for (const comm::Topology& topology : topologies) {
    found.push_back({topology, search_on(topology, asked, call.options(), cluster)});
    order(found.back().result.best, asked.goal);
  }
  require_possible(found, asked);
  std::string text = to_text(found, asked.rows, asked.wide, call.options());
  text += assumptions_text(asked.base.job, call.options());
  standard_output::write(text);
  trace::TraceData head = app::run_trace(call);
  head.seed = asked.base.job.config.seed;
  const bool none =
      std::ranges::all_of(found, [](const Found& each) { return each.result.fitting == 0; });
  if (none) head.verdict = "INVALID: no configuration fits";
  const trace::Document document = to_document(found, head);
  app::write_outputs(call, lock, document);
  if (!none) return ExitCode::ok;
  log::error(why_nothing_fits(asked, call.options(), topologies));
  return ExitCode::environment;
}

}  // namespace

int run_search(int argc, char** argv) {
  SearchJob asked;
  std::vector<comm::Topology> topologies;
  app::App app{.name = "plan", .options = options(asked), .config_flags = kConfigFlags};
  describe(app, "search");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    if (asked.base.job.config.zero.weight_differences.exact) {
      throw Error(ExitCode::usage,
                  "zeropp.exact_differences: search has no rows of exact differences: leave it out "
                  "(zpp_plan compare has a row of them)");
    }
    take_cluster(asked, given);
    take_job(asked.base.job, given);
    config::choose_automatic(given);  // once: candidates are copies, which it does not reach
    topologies = topologies_of(asked, given);
    choose_goal(asked, given, topologies);
    take_limits(asked, given);
    check_effects(asked, given, topologies);
  };
  app.run_alone = [&](const app::Call& call) { return search_job(asked, topologies, call); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan_app

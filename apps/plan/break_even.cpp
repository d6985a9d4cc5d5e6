// zpp_plan breakeven: the rates between nodes at which qwZ, hpZ, qgZ, each alone and all
// together, make a step of ZeRO-3 shorter.
#include "lib/plan/break_even.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "apps/plan/commands.hpp"
#include "apps/plan/rates_text.hpp"
#include "apps/plan/variants.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/config/effects.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

/// Request that the command reads.
struct Request {
  ClusterJob on;
  double gain = 0.05;
};

struct Row {
  std::string name;
  std::vector<plan::Rates> pays;
  double rate;          ///< of the fastest link with which it pays, bytes/s
  double rate_per_gpu;  ///< of a node's links, by its GPUs
  double seconds;       ///< of a step at the file's rate
  double speedup;       ///< over none, there
};

std::vector<config::Option> options(Request& asked) {
  std::vector<config::Option> table = options(asked.on);
  table.push_back(gain_option(asked.gain));
  return table;
}

std::vector<Row> rows_of(const PlannedVariants& runs, const comm::Topology& topology,
                         const plan::Cluster& cluster, double gain) {
  const double links_per_gpu =
      cluster.rails.links_per_node / static_cast<double>(topology.ranks_per_node);
  const double before = plan::shortest_step(runs.baselines, cluster);
  std::vector<Row> rows{{std::string(kFeatures.front().name), {}, 0, 0, before, 1}};
  const auto pays =
      plan::pays_where(runs.baselines, std::span(runs.features).subspan(1), cluster, gain);
  for (std::size_t i = 1; i < kFeatures.size(); ++i) {
    const double rate = plan::fastest_of(pays[i - 1]);
    const double seconds = plan::step_seconds(runs.features[i], cluster);
    rows.push_back({std::string(kFeatures[i].name), pays[i - 1], rate, rate * links_per_gpu,
                    seconds, before / seconds});
  }
  return rows;
}

std::string to_text(const std::vector<Row>& rows, const comm::Topology& topology,
                    const plan::Cluster& cluster) {
  const double links = cluster.rails.links_per_node;
  const double of_gpu = links / static_cast<double>(topology.ranks_per_node);
  trace::TextTable table({"feature", "pays below, Gbit/s per node", "per link", "per GPU",
                          "step ms here", "speed-up here"});
  for (const Row& row : rows) {
    const auto shown = [&](double times) {
      return row.name == kFeatures.front().name ? "-" : pays_text(row.pays, times, cluster);
    };
    table.add({row.name, shown(links), shown(1), shown(of_gpu),
               fmt::format("{:.1f}", row.seconds * 1e3), fmt::format("{:.2f}", row.speedup)});
  }
  const double here = cluster.rails.with(1).rate;
  return fmt::format("{} on {}\nhere: {} Gbit/s per node{}, {:g} link{} of {}\n\n{}",
                     topology.describe(), cluster.name, gbit_as_sold(here * links, cluster),
                     as_sold(cluster), links, links == 1 ? "" : "s", gbit_as_sold(here, cluster),
                     table.str());
}

trace::Group to_group(const std::vector<Row>& rows) {
  using trace::column;
  return {"break_even",
          {},
          {column("feature", "", "Of ZeRO++, over ZeRO-3 without", rows, &Row::name),
           column("link_rate", "bytes/s",
                  "Of a link between nodes, below which it pays: 0 never, 1e13 always", rows,
                  &Row::rate),
           column("gpu_rate", "bytes/s", "The same, of a node's links together by its GPUs", rows,
                  &Row::rate_per_gpu),
           column("step_seconds", "s", "At the cluster's own rate", rows, &Row::seconds),
           column("speedup", "1", "Over none, there", rows, &Row::speedup)}};
}

}  // namespace

std::vector<std::string> break_even_flags() { return flags_for<Request>(); }

int run_break_even(int argc, char** argv) {
  Request asked;
  comm::Topology topology;
  Variants variants;
  app::App app{.name = "plan", .options = options(asked), .config_flags = kConfigFlags};
  describe(app, "breakeven");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    require_cluster(asked.on, given);
    take_job(asked.on.job, given);
    config::choose_automatic(given);  // once: variants are copies, which it does not reach
    topology = topology_on_cluster(asked.on, given);
    require_several_nodes(topology,
                          "breakeven tries rates between nodes, and nothing crosses them");
    variants = variants_of(asked.on, topology, given, "breakeven");
  };
  app.run_alone = [&](const app::Call& call) {
    const app::OutputLock lock = app::preflight_outputs(call);
    const PlannedVariants runs = planned(variants, topology, asked.on.job.step);
    const auto too_large = std::ranges::find_if(runs.features, exceeds_limit);
    if (too_large != runs.features.end()) warn_of_limit(*too_large);
    const std::vector<Row> rows = rows_of(runs, topology, asked.on.cluster, asked.gain);
    standard_output::write(to_text(rows, topology, asked.on.cluster) +
                           assumptions_text(asked.on.job, call.options()));
    trace::Document document = trace::describe_run(app::run_trace(call));
    document.groups.push_back(to_group(rows));
    app::write_outputs(call, lock, document);
    return ExitCode::ok;
  };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan_app

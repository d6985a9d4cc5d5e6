// zpp_plan breakeven: the bandwidth between nodes below which qwZ, hpZ, qgZ, each alone and all
// together, make a step of ZeRO-3 shorter.
#include "lib/plan/break_even.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/plan/cluster_job.hpp"
#include "apps/plan/commands.hpp"
#include "lib/app/app.hpp"
#include "lib/app/outputs.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/data/token_source.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/trace/column.hpp"
#include "lib/trace/sinks/hdf5_sink.hpp"
#include "lib/trace/sinks/json_sink.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan {

namespace {

struct Feature {
  std::string_view name;
  bool qwz;
  bool hpz;
  bool qgz;
};
constexpr std::array<Feature, 5> kFeatures{{{"none", false, false, false},
                                            {"qwZ", true, false, false},
                                            {"hpZ", false, true, false},
                                            {"qgZ", false, false, true},
                                            {"all", true, true, true}}};
constexpr std::size_t kBaselines = 2;  ///< the first variants
constexpr double kGigabit = 1e9 / 8;

/// What the command reads.
struct Request {
  ClusterJob on;
  double gain = 0.05;
};

struct Variant {
  std::string name;
  config::TrainConfig config;
};

struct Row {
  std::string name;
  double rate;          ///< of a link, bytes/s
  double rate_per_gpu;  ///< of a node's links, by its GPUs
  double seconds;       ///< of a step at the file's rate
  double speedup;       ///< over none, there
};

std::vector<config::Option> options(Request& asked) {
  std::vector<config::Option> table = options(asked.on);
  table.push_back({.path = "plan.gain",
                   .flag = "--gain",
                   .field = &asked.gain,
                   .help = "By which share a step has to be shorter to pay",
                   .range = {.minimum = 0, .maximum = 1, .maximum_excluded = true}});
  return table;
}

/// What this command turns on and off itself.
constexpr std::array<std::string_view, 3> kTurned{"zero_optimization.zero_quantized_weights",
                                                  "zero_optimization.zero_hpz_partition_size",
                                                  "zero_optimization.zero_quantized_gradients"};

void warn_of_turned(const std::vector<config::Option>& given) {
  std::vector<std::string> named;
  for (const config::Option& option : given) {
    const bool turned = std::ranges::find(kTurned, option.path) != kTurned.end();
    if (turned && (option.given || option.is_automatic)) named.push_back(option.path);
  }
  if (named.empty()) return;
  log::warn(
      fmt::format("{} changes nothing here: breakeven turns qwZ, hpZ (over the ranks of a "
                  "node) and qgZ on and off itself",
                  fmt::join(named, ", ")));
}

void require_stage_3(const config::TrainConfig& config) {
  if (config.zero.stage == 3) return;
  throw Error(ExitCode::usage,
              fmt::format("zero_optimization.stage {}: breakeven compares with ZeRO-3, which hpZ "
                          "needs: give --zero-stage 3",
                          config.zero.stage));
}

std::vector<Variant> variants_of(ClusterJob& asked, const comm::Topology& topology,
                                 const std::vector<config::Option>& given) {
  std::vector<Variant> variants;
  for (const Feature& feature : kFeatures) {
    config::TrainConfig config = asked.job.config;
    config.zero.quantized_weights = feature.qwz;
    config.zero.quantized_gradients = feature.qgz;
    config.zero.hpz_partition_size =
        feature.hpz ? static_cast<std::size_t>(topology.ranks_per_node) : 1;
    config::resolve(config, given, machine_for(asked, topology));
    variants.push_back({std::string(feature.name), std::move(config)});
  }
  // The baseline is the faster of the two: on fast links the vendor's collectives.
  Variant vendors = variants.front();
  vendors.config.zero.all_gather_algorithm = "native";
  vendors.config.zero.reduce_scatter_algorithm = "native";
  if (vendors.config.zero.shard_group_size == zero::kAllRanks) vendors.config.rail_lanes = 1;
  variants.insert(variants.begin(), std::move(vendors));
  return variants;
}

std::vector<Row> rows_of(const std::vector<Variant>& variants, const comm::Topology& topology,
                         const Cluster& cluster, std::size_t step, double gain) {
  std::vector<PlannedRun> runs;
  runs.reserve(variants.size());
  for (const Variant& variant : variants) {
    runs.emplace_back(variant.config, topology, data::vocab_size(variant.config.data));
    runs.back().use_codecs_of(step);
  }
  const double links_per_gpu =
      cluster.rails.links_per_node / static_cast<double>(topology.ranks_per_node);
  const std::span<const PlannedRun> baselines = std::span(runs).first(kBaselines);
  const double before = shortest_step(baselines, cluster);
  std::vector<Row> rows{{"none", 0, 0, before, 1}};
  for (std::size_t i = kBaselines; i < runs.size(); ++i) {
    const double rate = break_even(baselines, runs[i], cluster, gain);
    const double seconds = step_seconds(runs[i], cluster);
    rows.push_back({variants[i].name, rate, rate * links_per_gpu, seconds, before / seconds});
  }
  return rows;
}

/// `value`: of the row, which pays below row.rate.
std::string shown(const Row& row, double value) {
  if (row.name == kFeatures.front().name) return "-";
  if (row.rate == 0) return "never";
  if (row.rate == kFastestLink) return "always";
  return fmt::format("{:.3g}", value / kGigabit);
}

std::string to_text(const std::vector<Row>& rows, const comm::Topology& topology,
                    const Cluster& cluster) {
  trace::TextTable table(
      {"feature", "pays below, Gbit/s a link", "Gbit/s a GPU", "step ms here", "speed-up here"});
  for (const Row& row : rows) {
    table.add({row.name, shown(row, row.rate), shown(row, row.rate_per_gpu),
               fmt::format("{:.1f}", row.seconds * 1e3), fmt::format("{:.2f}", row.speedup)});
  }
  return fmt::format("{} on {}; here: {:.4g} Gbit/s a link, {:g} links a node\n\n{}",
                     topology.describe(), cluster.name, cluster.rails.with(1).rate / kGigabit,
                     cluster.rails.links_per_node, table.str());
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

int run_break_even(int argc, char** argv) {
  Request asked;
  comm::Topology topology;
  std::vector<Variant> variants;
  app::App app{.name = "plan",
               .summary = summary_of("breakeven"),
               .options = options(asked),
               .config_flags = kConfigFlags};
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    config::choose_automatic(given);  // once: variants are copies, which it does not reach
    warn_of_turned(given);
    require_stage_3(asked.on.job.config);
    topology = read(asked.on, given);
    warn_of_default_model(asked.on.job, given);
    // So that codecs that were given are in effect.
    asked.on.job.config.zero.quantized_weights = true;
    asked.on.job.config.zero.quantized_gradients = true;
    variants = variants_of(asked.on, topology, given);
    asked.on.job.config = variants.back().config;
  };
  app.run_alone = [&](const app::Call& call) {
    const app::HeldOutputs held = app::preflight_outputs(call);
    const std::vector<Row> rows =
        rows_of(variants, topology, asked.on.cluster, asked.on.job.step, asked.gain);
    std::fputs(to_text(rows, topology, asked.on.cluster).c_str(), stdout);
    trace::Document document = trace::describe_run(app::run_trace(call));
    document.groups.push_back(to_group(rows));
    trace::write_hdf5(document, call.trace_path());
    if (call.json) trace::write_json(trace::to_json(document), *call.json);
    return ExitCode::ok;
  };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan

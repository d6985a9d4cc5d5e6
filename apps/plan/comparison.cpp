#include "apps/plan/comparison.hpp"

#include <algorithm>
#include <span>

#include "lib/plan/estimate.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/zero/plan/hpz_use.hpp"

namespace zeropp::plan_app {

namespace {

double ratio(std::uint64_t before, std::uint64_t after) {
  return static_cast<double>(before) / static_cast<double>(after);
}

std::uint64_t out_of_node(const plan::Estimate& made, const comm::Topology& topology) {
  return made.step.total().bytes.inter / static_cast<std::uint64_t>(topology.node_count);
}

void add_times(Comparison& made, const PlannedVariants& runs, const plan::Cluster& cluster,
               double gain) {
  const plan::StepTime vendors = plan::step_time(runs.baselines.front(), cluster);
  const auto parts = std::span(runs.features).subspan(1);
  const auto pays = plan::pays_where(runs.baselines, parts, cluster, gain);
  for (std::size_t i = 0; i < made.rows.size(); ++i) {
    ComparedRow& row = made.rows[i];
    const plan::StepTime time = plan::step_time(runs.features[i], cluster);
    row.seconds = time.seconds;
    row.bound = time.bound;
    if (i > 0) row.pays = pays[i - 1];
    row.link_rate = plan::fastest_of(row.pays);
  }
  ComparedRow& before = made.rows.front();
  made.vendors_are_faster = vendors.seconds < before.seconds;
  if (made.vendors_are_faster) {
    before.seconds = vendors.seconds;
    before.bound = vendors.bound;
  }
  for (ComparedRow& row : made.rows) row.speedup = before.seconds / row.seconds;
}

config::TrainConfig with_one_micro_step(config::TrainConfig config) {
  config.train_batch_size /= config.gradient_accumulation_steps;
  config.gradient_accumulation_steps = 1;
  config.zero.accumulation_steps = 1;
  return config;
}

/// The micro-step alone of which a step that takes them in turn is made: of ZeRO-3, and of all
/// parts.
PlannedVariants of_one_micro_step(Variants variants, const comm::Topology& topology,
                                  std::size_t step) {
  variants.features = {with_one_micro_step(variants.features.front()),
                       with_one_micro_step(variants.features.back())};
  variants.vendors = with_one_micro_step(variants.vendors);
  return planned(variants, topology, step);
}

std::vector<InTurnRow> in_turn(const PlannedVariants& one, std::size_t times,
                               const comm::Topology& topology, const plan::Cluster* cluster) {
  const auto row = [&](const Feature& feature, const plan::PlannedRun& run) {
    return InTurnRow{.feature = std::string(feature.name),
                     .out_of_node = times * out_of_node(plan::estimate(run), topology)};
  };
  std::vector<InTurnRow> rows{row(kFeatures.front(), one.features.front()),
                              row(kFeatures.back(), one.features.back())};
  rows.back().reduction = ratio(rows.front().out_of_node, rows.back().out_of_node);
  if (cluster == nullptr) return rows;
  double before = std::numeric_limits<double>::infinity();
  for (const plan::PlannedRun& run : one.baselines) {
    before = std::min(before, plan::separate_micro_steps_seconds(run, times, *cluster));
  }
  rows.front().seconds = before;
  rows.back().seconds = plan::separate_micro_steps_seconds(one.features.back(), times, *cluster);
  for (InTurnRow& each : rows) each.speedup = before / each.seconds;
  return rows;
}

bool weights_stay(const plan::PlannedRun& run) {
  return run.config().zero.max_reuse_distance > 0 ||
         std::ranges::any_of(run.plans().units, &zero::UnitPartition::persistent);
}

/// Bytes of a rank on its device, were the secondary copy of the run in the memory of the host.
std::uint64_t memory_without_copy(const plan::PlannedRun& run, std::size_t step) {
  config::TrainConfig config = run.config();
  config.zero.hpz_device = zero::HpzDevice::cpu;
  return plan::device_bytes(planned(config, run.topology(), step).memory());
}

}  // namespace

Comparison compare(const Variants& variants, const comm::Topology& topology,
                   const plan::Cluster* cluster, std::size_t step, double gain) {
  const PlannedVariants runs = planned(variants, topology, step);
  warn_of_hpz(runs.features.back());
  Comparison made;
  for (std::size_t i = 0; i < kFeatures.size(); ++i) {
    const plan::Estimate told = plan::estimate(runs.features[i]);
    made.parameters = told.parameters;
    made.tokens_per_step = told.tokens_per_step;
    ComparedRow row{.feature = std::string(kFeatures[i].name),
                    .out_of_node = out_of_node(told, topology),
                    .memory = told.memory_bytes,
                    .memory_without_copy = told.memory_bytes};
    if (runs.features[i].config().zero.has_secondary()) {
      row.memory_without_copy = memory_without_copy(runs.features[i], step);
    }
    row.reduction = i == 0 ? 1 : ratio(made.rows.front().out_of_node, row.out_of_node);
    made.rows.push_back(std::move(row));
  }
  made.copies_serve = zero::gathers_secondary(runs.features.back().plans().step.step.stale);
  made.weights_stay = weights_stay(runs.features.front());
  const std::size_t times = variants.vendors.gradient_accumulation_steps;
  made.in_turn =
      times == 1 ? in_turn(runs, times, topology, cluster)
                 : in_turn(of_one_micro_step(variants, topology, step), times, topology, cluster);
  if (cluster != nullptr) add_times(made, runs, *cluster, gain);
  return made;
}

}  // namespace zeropp::plan_app

#include "apps/plan/comparison.hpp"

#include <algorithm>
#include <span>

#include "lib/base/in_parallel.hpp"
#include "lib/plan/estimate.hpp"
#include "lib/plan/step_time.hpp"

namespace zeropp::plan_app {

namespace {

double ratio(std::uint64_t before, std::uint64_t after) {
  return static_cast<double>(before) / static_cast<double>(after);
}

std::uint64_t out_of_node(const plan::Estimate& made, const comm::Topology& topology) {
  return made.step.total().bytes.inter / static_cast<std::uint64_t>(topology.node_count);
}

/// Adds to `rows` the times of their `runs`, in the same order.
void add_step_times(std::span<ComparedRow> rows, std::span<const plan::PlannedRun> runs,
                    const plan::Cluster& cluster) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const plan::StepTime time = plan::step_time(runs[i], cluster);
    rows[i].seconds = time.seconds;
    rows[i].bound = time.bound;
  }
}

/// Adds to `rows` the rates with which their `runs` pay, in the same order.
void add_rates(std::span<ComparedRow> rows, std::span<const plan::PlannedRun> runs,
               std::span<const plan::PlannedRun> baselines, const plan::Cluster& cluster,
               double gain) {
  const auto pays = plan::pays_where(baselines, runs, cluster, gain);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].pays = pays[i];
    rows[i].link_rate = plan::fastest_of(pays[i]);
  }
}

void add_times(Comparison& made, const PlannedVariants& runs,
               std::span<const plan::PlannedRun> others, const plan::Cluster& cluster,
               double gain) {
  const plan::StepTime vendors = plan::step_time(runs.baselines.front(), cluster);
  add_step_times(made.rows, runs.features, cluster);
  add_step_times(made.others, others, cluster);
  made.rows.front().link_rate = plan::fastest_of({});
  add_rates(std::span(made.rows).subspan(1), std::span(runs.features).subspan(1), runs.baselines,
            cluster, gain);
  add_rates(made.others, others, runs.baselines, cluster, gain);
  ComparedRow& before = made.rows.front();
  if (vendors.seconds < before.seconds) {
    before.seconds = vendors.seconds;
    before.bound = vendors.bound;
  }
  for (ComparedRow& row : made.rows) row.speedup = before.seconds / row.seconds;
  for (ComparedRow& row : made.others) row.speedup = before.seconds / row.seconds;
}

config::TrainConfig with_one_micro_step(config::TrainConfig config) {
  config.train_batch_size /= config.gradient_accumulation_steps;
  config.gradient_accumulation_steps = 1;
  config.zero.accumulation_steps = 1;
  return config;
}

/// The micro-step of which a step that takes them in turn is made. Without weight differences,
/// which DeepSpeed has not.
PlannedVariants of_one_micro_step(Variants variants, const comm::Topology& topology,
                                  std::size_t step) {
  for (config::TrainConfig& config : variants.features) {
    config = with_one_micro_step(config);
    config.zero.weight_differences.enabled = false;
  }
  variants.vendors = with_one_micro_step(variants.vendors);
  return planned(variants, topology, step);
}

/// `others`: rows whose micro-steps run in turn in zeropp too, since they gather nothing between
/// nodes that the next micro-step waits for.
std::vector<InTurnRow> in_turn(const Variants& variants, const comm::Topology& topology,
                               std::size_t step, const plan::Cluster* cluster,
                               const std::vector<ComparedRow>& others) {
  const std::size_t times = variants.vendors.gradient_accumulation_steps;
  const PlannedVariants one = of_one_micro_step(variants, topology, step);
  std::vector<InTurnRow> rows;
  for (std::size_t i = 0; i < kFeatures.size(); ++i) {
    const plan::Estimate told = plan::estimate(one.features[i]);
    plan::Sent later = told.step_same_weights.forward;
    later += told.step_same_weights.backward;
    const std::uint64_t further =
        later.bytes.inter / static_cast<std::uint64_t>(topology.node_count);
    rows.push_back({.feature = std::string(kFeatures[i].name),
                    .out_of_node = out_of_node(told, topology) + (times - 1) * further});
    if (cluster == nullptr) continue;
    rows.back().seconds = plan::separate_micro_steps_seconds(one.features[i], times, *cluster);
  }
  for (const ComparedRow& other : others) {
    if (other.feature != kHybrids.front().name && !is_lower_stage(other.feature)) continue;
    rows.push_back(
        {.feature = other.feature, .out_of_node = other.out_of_node, .seconds = other.seconds});
  }
  InTurnRow& before = rows.front();
  if (cluster != nullptr) {
    const plan::PlannedRun& vendors = one.baselines.front();
    before.seconds =
        std::min(before.seconds, plan::separate_micro_steps_seconds(vendors, times, *cluster));
  }
  for (InTurnRow& each : rows) {
    each.reduction = ratio(before.out_of_node, each.out_of_node);
    each.speedup = before.seconds / each.seconds;
  }
  return rows;
}

/// The DeepSpeed that runs a row. DeepSpeed has no weight differences, and MiCS only without qgZ.
config::DeepSpeedNeed deepspeed_of(std::string_view name, const config::TrainConfig& config,
                                   int nodes) {
  const bool in_zeropp_alone =
      config.zero.weight_differences.enabled || name == kHybrids.back().name;
  if (in_zeropp_alone) return {config::RunsIn::none};
  return config::deepspeed_needed(config, nodes);
}

/// The row of a run of which `told` is the estimate, but for its times. `before`: bytes of ZeRO-3.
ComparedRow row_of(std::string_view name, const plan::PlannedRun& run, const plan::Estimate& told,
                   std::uint64_t before) {
  const std::uint64_t sent = out_of_node(told, run.topology());
  return {.feature = std::string(name),
          .out_of_node = sent,
          .reduction = ratio(before, sent),
          .memory = told.memory_bytes,
          .deepspeed = deepspeed_of(name, run.config(), run.topology().node_count)};
}

}  // namespace

std::vector<ComparedRow> all_rows(const Comparison& comparison) {
  std::vector<ComparedRow> rows = comparison.rows;
  rows.insert(rows.end(), comparison.others.begin(), comparison.others.end());
  return rows;
}

Comparison compare(const Variants& variants, const comm::Topology& topology,
                   const plan::Cluster* cluster, std::size_t step, double gain, double memory) {
  const PlannedVariants runs = planned(variants, topology, step);
  std::vector<plan::PlannedRun> others;
  warn_of_hpz(runs.features.back());
  Comparison made;
  const std::uint64_t before = out_of_node(plan::estimate(runs.features.front()), topology);
  for (std::size_t i = 0; i < kFeatures.size(); ++i) {
    const plan::Estimate told = plan::estimate(runs.features[i]);
    made.parameters = told.parameters;
    made.tokens_per_step = told.tokens_per_step;
    made.rows.push_back(row_of(kFeatures[i].name, runs.features[i], told, before));
  }
  std::vector<plan::PlannedRun> all = in_parallel(variants.others.size(), [&](std::size_t index) {
    return planned(variants.others[index].config, topology, variants.others[index].step);
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Other& other = variants.others[i];
    plan::PlannedRun& run = all[i];
    const ComparedRow row = row_of(other.name, run, plan::estimate(run), before);
    const bool fits = memory == 0 || static_cast<double>(row.memory) <= memory;
    if (is_lower_stage(other.name) && !fits) continue;
    made.others.push_back(row);
    others.push_back(std::move(run));
  }
  made.refused = variants.refused;
  if (cluster != nullptr) add_times(made, runs, others, *cluster, gain);
  made.in_turn = in_turn(variants, topology, step, cluster, made.others);
  return made;
}

}  // namespace zeropp::plan_app

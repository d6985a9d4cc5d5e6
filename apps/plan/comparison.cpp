#include "apps/plan/comparison.hpp"

#include <algorithm>
#include <limits>
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
  made.vendors_are_faster = vendors.seconds < before.seconds;
  if (made.vendors_are_faster) {
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

/// `hybrid` is null where hybrid sharding has no row. Its own row is of micro-steps in turn too: of
/// them only the last sends between nodes.
std::vector<InTurnRow> in_turn(const Variants& variants, const comm::Topology& topology,
                               std::size_t step, const plan::Cluster* cluster,
                               const ComparedRow* hybrid) {
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
  if (hybrid != nullptr) {
    rows.push_back({.feature = hybrid->feature,
                    .out_of_node = hybrid->out_of_node,
                    .seconds = hybrid->seconds});
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

/// Seconds of a step with overlap_comm, the fastest of the configurations.
double overlapped_seconds(std::vector<config::TrainConfig> configs, const comm::Topology& topology,
                          std::size_t step, const plan::Cluster& cluster) {
  double least = std::numeric_limits<double>::infinity();
  for (config::TrainConfig& config : configs) {
    config.zero.overlap_comm = true;
    least = std::min(least, plan::step_seconds(planned(config, topology, step), cluster));
  }
  return least;
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

/// The row of a run of which `told` is the estimate, but for its times. `before`: bytes of ZeRO-3.
ComparedRow row_of(std::string_view name, const plan::PlannedRun& run, const plan::Estimate& told,
                   const comm::Topology& topology, std::uint64_t before, std::size_t step) {
  const std::uint64_t sent = out_of_node(told, topology);
  return {.feature = std::string(name),
          .out_of_node = sent,
          .reduction = ratio(before, sent),
          .memory = told.memory_bytes,
          .memory_without_copy = run.config().zero.has_secondary() ? memory_without_copy(run, step)
                                                                   : told.memory_bytes};
}

}  // namespace

std::vector<ComparedRow> all_rows(const Comparison& comparison) {
  std::vector<ComparedRow> rows = comparison.rows;
  rows.insert(rows.end(), comparison.others.begin(), comparison.others.end());
  return rows;
}

const ComparedRow* other_row(const Comparison& comparison, std::string_view name) {
  const auto found = std::ranges::find(comparison.others, name, &ComparedRow::feature);
  return found == comparison.others.end() ? nullptr : &*found;
}

Comparison compare(const Variants& variants, const comm::Topology& topology,
                   const plan::Cluster* cluster, std::size_t step, double gain) {
  const PlannedVariants runs = planned(variants, topology, step);
  const std::vector<plan::PlannedRun> others = planned_others(variants, topology);
  warn_of_hpz(runs.features.back());
  Comparison made;
  const std::uint64_t before = out_of_node(plan::estimate(runs.features.front()), topology);
  for (std::size_t i = 0; i < kFeatures.size(); ++i) {
    const plan::Estimate told = plan::estimate(runs.features[i]);
    made.parameters = told.parameters;
    made.tokens_per_step = told.tokens_per_step;
    made.rows.push_back(row_of(kFeatures[i].name, runs.features[i], told, topology, before, step));
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    const Other& other = variants.others[i];
    made.others.push_back(
        row_of(other.name, others[i], plan::estimate(others[i]), topology, before, other.step));
  }
  made.why_no_differences = variants.why_no_differences;
  made.why_no_hybrids = variants.why_no_hybrids;
  made.copies_serve = zero::gathers_secondary(runs.features.back().plans().step.step.stale);
  made.weights_stay = weights_stay(runs.features.front());
  if (cluster != nullptr) add_times(made, runs, others, *cluster, gain);
  made.in_turn = in_turn(variants, topology, step, cluster, other_row(made, kHybrids.front().name));
  if (cluster != nullptr && !variants.vendors.zero.overlap_comm) {
    made.overlapped_before =
        overlapped_seconds({variants.vendors, variants.features.front()}, topology, step, *cluster);
    made.overlapped_all = overlapped_seconds({variants.features.back()}, topology, step, *cluster);
  }
  return made;
}

}  // namespace zeropp::plan_app

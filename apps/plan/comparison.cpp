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
  const std::size_t times = variants.vendors.gradient_accumulation_steps;
  made.in_turn =
      times == 1 ? in_turn(runs, times, topology, cluster)
                 : in_turn(of_one_micro_step(variants, topology, step), times, topology, cluster);
  if (cluster != nullptr) add_times(made, runs, others, *cluster, gain);
  return made;
}

}  // namespace zeropp::plan_app

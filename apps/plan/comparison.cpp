#include "apps/plan/comparison.hpp"

#include <span>

#include "lib/plan/estimate.hpp"
#include "lib/plan/step_time.hpp"

namespace zeropp::plan {

namespace {

double ratio(std::uint64_t before, std::uint64_t after) {
  return static_cast<double>(before) / static_cast<double>(after);
}

std::uint64_t out_of_node(const Estimate& made, const comm::Topology& topology) {
  return made.step.total().bytes.inter / static_cast<std::uint64_t>(topology.node_count);
}

void add_times(Comparison& made, const PlannedVariants& runs, const Cluster& cluster, double gain) {
  const StepTime vendors = step_time(runs.baselines.front(), cluster);
  const auto parts = std::span(runs.features).subspan(1);
  const auto pays = pays_where(runs.baselines, parts, cluster, gain);
  for (std::size_t i = 0; i < made.rows.size(); ++i) {
    ComparedRow& row = made.rows[i];
    const StepTime time = step_time(runs.features[i], cluster);
    row.seconds = time.seconds;
    row.bound = time.bound;
    if (i > 0) row.pays = pays[i - 1];
    row.link_rate = fastest_of(row.pays);
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

}  // namespace

Comparison compare(const Variants& variants, const comm::Topology& topology, const Cluster* cluster,
                   std::size_t step, double gain) {
  const PlannedVariants runs = planned(variants, topology, step);
  warn_of_hpz(runs.features.back());
  Comparison made;
  for (std::size_t i = 0; i < kFeatures.size(); ++i) {
    const Estimate told = estimate(runs.features[i]);
    made.parameters = told.parameters;
    made.tokens_per_step = told.tokens_per_step;
    ComparedRow row{.feature = std::string(kFeatures[i].name),
                    .out_of_node = out_of_node(told, topology),
                    .memory = told.memory_bytes};
    row.reduction = i == 0 ? 1 : ratio(made.rows.front().out_of_node, row.out_of_node);
    made.rows.push_back(std::move(row));
  }
  const auto of_one_micro_step = [&](const config::TrainConfig& config) {
    return out_of_node(estimate(planned(with_one_micro_step(config), topology, step)), topology);
  };
  made.reduction_of_one_micro_step = ratio(of_one_micro_step(variants.features.front()),
                                           of_one_micro_step(variants.features.back()));
  if (cluster != nullptr) add_times(made, runs, *cluster, gain);
  return made;
}

}  // namespace zeropp::plan

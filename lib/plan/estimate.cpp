#include "lib/plan/estimate.hpp"

#include <algorithm>

namespace zeropp::plan {

namespace {

using zero::Op;
using zero::Phase;
using zero::Schedule;

comm::Bytes& of_phase(StepTraffic& traffic, Phase phase) {
  if (phase == Phase::update) return traffic.update;
  return phase == Phase::backward ? traffic.backward : traffic.forward;
}

/// Calls body(operation, phase, its trace row, bytes over all ranks) for the collectives of a step.
template <class Body>
void for_each_collective(const PlannedRun& run, bool same_weights, const Body& body) {
  const zero::StepPlan& plan = run.plans().step;
  for (const Schedule* schedule : {&plan.step.at(same_weights ? 1 : 0), &plan.update}) {
    for (const Op& op : schedule->ops) {
      const Phase phase = zero::training_phase(op);
      const trace::CollectiveRow* row = run.plans().row(op, phase);
      if (row != nullptr) body(op, phase, *row, zero::volume(op, run.over_ranks()));
    }
  }
}

StepTraffic traffic_of(const PlannedRun& run, bool same_weights) {
  StepTraffic traffic;
  for_each_collective(
      run, same_weights,
      [&](const Op&, Phase phase, const trace::CollectiveRow& row, const comm::Bytes& bytes) {
        of_phase(traffic, phase) += bytes;
        if (row.modelled) traffic.modelled += bytes;
      });
  return traffic;
}

std::vector<trace::CollectiveRow> collectives_of(const PlannedRun& run) {
  std::vector<const trace::CollectiveRow*> keys;
  std::vector<trace::CollectiveRow> rows;
  for_each_collective(
      run, false, [&](const Op&, Phase, const trace::CollectiveRow& row, const comm::Bytes& bytes) {
        const auto found = std::ranges::find(keys, &row);
        const auto index = static_cast<std::size_t>(found - keys.begin());
        if (found == keys.end()) {
          keys.push_back(&row);
          rows.push_back(row);
        }
        ++rows[index].calls;
        rows[index].wire_bytes_intra += bytes.intra;
        rows[index].wire_bytes_inter += bytes.inter;
      });
  return rows;
}

}  // namespace

comm::Bytes StepTraffic::total() const {
  comm::Bytes sum = forward;
  sum += backward;
  sum += update;
  return sum;
}

Estimate estimate(const PlannedRun& run) {
  const zero::StepPlan& plan = run.plans().step;
  const config::TrainConfig& config = run.config();
  Estimate made;
  made.step = traffic_of(run, false);
  made.step_same_weights = traffic_of(run, true);
  made.initial = zero::volume(plan.initial, run.over_ranks());
  made.evaluation = zero::volume(plan.evaluation.front(), run.over_ranks());
  made.collectives = collectives_of(run);
  made.memory = run.memory();
  for (const zero::MemoryPart& part : made.memory) {
    if (!zero::is_offloaded(part.name)) made.memory_bytes += part.bytes;
  }
  for (const zero::Unit& unit : run.model().units) made.parameters += unit.parameters();
  made.tokens_per_step =
      static_cast<double>(config.train_batch_size) * static_cast<double>(config.model.seq_length);
  made.flops_per_step = made.tokens_per_step * run.model().flops_per_token;
  return made;
}

}  // namespace zeropp::plan

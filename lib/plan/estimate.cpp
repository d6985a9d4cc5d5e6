#include "lib/plan/estimate.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/plan/saturating.hpp"
#include "lib/zero/plan/collectives.hpp"

namespace zeropp::plan {

namespace {

using zero::Op;
using zero::Phase;
using zero::Schedule;

Sent& of_phase(StepTraffic& traffic, Phase phase) {
  if (phase == Phase::update) return traffic.update;
  return phase == Phase::backward ? traffic.backward : traffic.forward;
}

Sent sent_by(const Op& op, const PlannedRun& run) {
  return {zero::volume(op, run.over_ranks()), zero::volume(op, run.messages())};
}

Sent sent_by(const Schedule& schedule, const PlannedRun& run) {
  return {saturated_volume(schedule, run.over_ranks()), saturated_volume(schedule, run.messages())};
}

/// Calls body(operation, its description, what all ranks send) for the collectives of a step.
template <class Body>
void for_each_collective(const PlannedRun& run, const Schedule& step, const Body& body) {
  for (const Schedule* schedule : {&step, &run.plans().step.update}) {
    for (const Op& op : schedule->ops) {
      const collective::Description* described = run.plans().description(op);
      if (described != nullptr) body(op, *described, sent_by(op, run));
    }
  }
}

StepTraffic traffic_of(const PlannedRun& run, const Schedule& step) {
  StepTraffic traffic;
  for_each_collective(
      run, step, [&](const Op& op, const collective::Description& described, const Sent& sent) {
        of_phase(traffic, op.phase) += sent;
        if (described.row.modelled) traffic.modelled += sent;
      });
  return traffic;
}

std::vector<PlannedCollective> collectives_of(const PlannedRun& run) {
  std::vector<PlannedCollective> made;
  for_each_collective(
      run, run.step_schedule(),
      [&](const Op& op, const collective::Description& described, const Sent& sent) {
        trace::CollectiveRow row = described.row;
        row.phase = zero::name_of(op.phase);
        auto found = std::ranges::find_if(
            made, [&](const PlannedCollective& other) { return trace::same_keys(other.row, row); });
        if (found == made.end()) found = made.insert(made.end(), {row, {}});
        trace::CollectiveRow& sums = found->row;
        sums.calls += described.runs;
        sums.wire_bytes_intra = saturated_sum(sums.wire_bytes_intra, sent.bytes.intra, 1);
        sums.wire_bytes_inter = saturated_sum(sums.wire_bytes_inter, sent.bytes.inter, 1);
        add(found->messages, sent.messages);
      });
  return made;
}

/// An estimate is exact: sums that are too large to count are refused.
void require_counted(const Sent& step) {
  const auto most =
      std::max({step.bytes.intra, step.bytes.inter, step.messages.intra, step.messages.inter});
  if (most < kUncounted) return;
  throw Error(ExitCode::usage,
              "all ranks together send 2^64 bytes or more in a step, which is beyond what is "
              "counted: plan fewer nodes, a smaller model or fewer micro-steps");
}

}  // namespace

Sent& Sent::operator+=(const Sent& other) {
  add(bytes, other.bytes);
  add(messages, other.messages);
  return *this;
}

Sent StepTraffic::total() const {
  Sent sum = forward;
  sum += backward;
  sum += update;
  return sum;
}

Estimate estimate(const PlannedRun& run) {
  const zero::StepPlan& plan = run.plans().step;
  const config::TrainConfig& config = run.config();
  Estimate made;
  made.step = traffic_of(run, run.step_schedule());
  require_counted(made.step.total());
  made.step_same_weights = traffic_of(run, plan.step.current);
  made.initial = sent_by(plan.initial, run);
  made.evaluation = sent_by(plan.evaluation.stale, run);
  made.collectives = collectives_of(run);
  made.memory = run.memory();
  made.memory_bytes = device_bytes(made.memory);
  for (const zero::Unit& unit : run.model().units) made.parameters += unit.parameters();
  made.tokens_per_step =
      static_cast<double>(config.train_batch_size) * static_cast<double>(config.model.seq_length);
  made.flops_per_step = made.tokens_per_step * run.model().flops_per_token;
  return made;
}

}  // namespace zeropp::plan

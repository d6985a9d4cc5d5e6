#include "lib/plan/step_time.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lib/plan/layer_costs.hpp"

namespace zeropp::plan {

namespace {

using zero::Op;
using zero::OpKind;
using zero::StreamId;

struct Phases {
  double optimizer = 0;
  double forward = 0;
  double backward = 0;
};

/// The compute stream is in a phase from the end of what it did before to the end of its last layer
/// there.
Phases phases_of(const zero::Schedule& schedule, const Timeline& timeline) {
  Phases phases;
  double at = 0;
  bool computing = false;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    if (op.kind != OpKind::forward && op.kind != OpKind::backward) continue;
    if (!computing && op.stream == StreamId::compute) {
      for (std::size_t u = 0; u < i; ++u) {
        if (schedule.ops[u].kind == OpKind::update && schedule.ops[u].stream == StreamId::compute) {
          phases.optimizer = std::max(phases.optimizer, timeline.spans[u].end);
        }
      }
      at = phases.optimizer;
      computing = true;
    }
    const double end = timeline.spans[i].end;
    (op.backward_phase ? phases.backward : phases.forward) += end - at;
    at = end;
  }
  phases.backward += timeline.seconds - at;
  return phases;
}

bool can_overlap(const Workload& work, const Engine& engine) {
  if (engine.max_live_parameters <= 0) return true;
  double largest = 0;
  for (const zero::UnitPartition& unit : work.input.units) {
    largest = std::max(largest, static_cast<double>(unit.parameters));
  }
  return 2 * largest <= engine.max_live_parameters;
}

const char* bound_of(const Timeline& timeline) {
  constexpr std::array<std::pair<Resource, const char*>, kResources> kExposed{
      {{Resource::rails, "communication across nodes"},
       {Resource::host, "the optimizer on the host"},
       {Resource::host_link, "links to the host"},
       {Resource::node_links, "communication inside nodes"},
       {Resource::copies, "copies inside nodes"},
       {Resource::gpu, "kernels beside the layers"},
       {Resource::none, "latency"}}};
  const char* bound = "compute";
  double largest = timeline.compute;
  for (const auto& [resource, name] : kExposed) {
    const double seconds = timeline.exposed[static_cast<std::size_t>(resource)];
    if (seconds <= largest) continue;
    largest = seconds;
    bound = name;
  }
  return bound;
}

}  // namespace

zero::Schedule chained(const zero::Schedule& update, const zero::Schedule& step,
                       const zero::ScheduleInput& input, const Program& program) {
  zero::Schedule joined = update;
  if (program.updates_on_host) {  // nothing else is started: they may as well be on the stream of
                                  // the layers
    for (Op& op : joined.ops) {
      if (op.kind == OpKind::update) op.stream = StreamId::compute;
    }
  }
  const std::size_t offset = update.ops.size();
  std::vector<std::size_t> updates(input.units.size());
  std::vector<std::size_t> others;  // that the whole step waits for
  for (std::size_t i = 0; i < offset; ++i) {
    const Op& op = joined.ops[i];
    if (op.kind == OpKind::update) updates[op.index] = i;
    if (op.kind != OpKind::update || op.stream == StreamId::compute) others.push_back(i);
  }
  std::array<bool, zero::kStreams> begun{};
  std::optional<std::size_t> reduction;  // the last
  for (Op op : step.ops) {
    for (std::size_t& before : op.waits_on) before += offset;
    if (!std::exchange(begun[static_cast<std::size_t>(op.stream)], true)) {
      op.waits_on.insert(op.waits_on.end(), others.begin(), others.end());
    }
    if (offset > 0 && op.kind == OpKind::gather) op.waits_on.push_back(updates[op.index]);
    if (offset > 0 && op.kind == OpKind::reduce) {
      for (const zero::Segment& segment : input.buckets[op.index].segments) {
        op.waits_on.push_back(updates[segment.unit]);
      }
    }
    if (op.kind == OpKind::reduce) {
      const auto before = std::exchange(reduction, joined.ops.size());
      if (program.reductions_in_turn && before) op.waits_on.push_back(*before);
    }
    joined.ops.push_back(std::move(op));
  }
  joined.arena_bytes = std::max(update.arena_bytes, step.arena_bytes);
  return joined;
}

namespace {

/// All but the schedule.
StepTime timed(const zero::Schedule& schedule, const Workload& work, const Cluster& cluster) {
  StepTime made;
  const std::vector<OpCost> costs = op_costs(schedule, work, cluster);
  Sharing shared = sharing(cluster, work.config.rail_lanes);
  shared.kernel_wait = product_rest(work.config.model, work.config.train_micro_batch_size_per_gpu,
                                    config::compute_dtype(work.config), cluster.gpu);
  made.timeline = simulate(schedule, costs, shared, work.input.overlap);
  const Phases hidden = phases_of(schedule, made.timeline);
  const double overlap = can_overlap(work, cluster.engine) ? cluster.engine.overlap : 0;
  Timeline serial;
  if (overlap < 1) serial = simulate(schedule, costs, shared, false);
  const Phases bare = overlap < 1 ? phases_of(schedule, serial) : Phases{};
  const auto between = [&](double with_overlap, double without) {
    return overlap < 1 ? without + overlap * (with_overlap - without) : with_overlap;
  };
  made.seconds = between(made.timeline.seconds, serial.seconds);
  made.optimizer = between(hidden.optimizer, bare.optimizer);
  made.forward = between(hidden.forward, bare.forward);
  made.backward = between(hidden.backward, bare.backward);
  made.compute = made.timeline.compute;
  made.exposed = between(made.timeline.exposed_seconds(), serial.exposed_seconds());
  made.bound = bound_of(overlap > 0 ? made.timeline : serial);
  return made;
}

/// From the end of the backward before it to the end of its own: reductions that are still on their
/// way then are in the shadow of the next.
double last_micro_step(const zero::Schedule& schedule, const StepTime& time) {
  std::array<double, 2> ends{};  ///< of the last micro-step, and of those before
  const std::size_t last = schedule.ops.back().micro_step;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    if (op.kind != OpKind::backward) continue;
    double& end = ends.at(op.micro_step < last ? 1 : 0);
    end = std::max(end, time.timeline.spans[i].end);
  }
  return (ends[0] - ends[1]) * time.seconds / time.timeline.seconds;
}

Program program_of(const Engine& engine, const config::TrainConfig& config) {
  return {.updates_on_host = config.zero.offload_optimizer.enabled(),
          .reductions_in_turn = engine.reductions_at_a_time == 1};
}

}  // namespace

StepTime step_time(const PlannedRun& run, const Cluster& cluster) {
  // The first tensor of a transformer is its token table.
  const Workload work{.config = run.config(),
                      .topology = run.topology(),
                      .input = run.plans().step.input,
                      .codecs = run.plans().codecs,
                      .choice = run.choice(),
                      .vocab_size = run.model().units.front().tensors.front().shape.front()};
  const zero::StepPlan& plan = run.plans().step;
  zero::Schedule schedule =
      chained(plan.update, plan.step.front(), work.input, program_of(cluster.engine, run.config()));
  StepTime made = timed(schedule, work, cluster);
  made.schedule = std::move(schedule);
  return made;
}

double step_seconds(const PlannedRun& run, const Cluster& cluster) {
  return step_time(run, cluster).seconds;
}

StepSeconds seconds_on(const Cluster& cluster, const comm::Topology& topology,
                       std::size_t source_vocab_size) {
  // Many candidates share a schedule, by its plan's address.
  auto schedules = std::make_shared<std::map<const zero::StepPlan*, zero::Schedule>>();
  return [&cluster, &topology, source_vocab_size, schedules](const Candidate& candidate,
                                                             const SharedPlan& plan) {
    const zero::ScheduleInput& input = plan.schedules->input;
    const std::size_t declared = candidate.config.model.vocab_size;
    const zero::CodecChoice choice = plan.codecs->at(0);
    auto found = schedules->find(plan.schedules);
    if (found == schedules->end()) {
      found = schedules
                  ->emplace(plan.schedules,
                            chained(plan.schedules->update, plan.schedules->step.front(), input,
                                    program_of(cluster.engine, candidate.config)))
                  .first;
    }
    const StepTime time = timed(found->second,
                                {.config = candidate.config,
                                 .topology = topology,
                                 .input = input,
                                 .codecs = *plan.codecs,
                                 .choice = choice,
                                 .vocab_size = declared > 0 ? declared : source_vocab_size},
                                cluster);
    const std::size_t more = candidate.config.gradient_accumulation_steps - input.micro_steps;
    return more == 0
               ? time.seconds
               : time.seconds + static_cast<double>(more) * last_micro_step(found->second, time);
  };
}

}  // namespace zeropp::plan

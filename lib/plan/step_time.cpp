#include "lib/plan/step_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "lib/plan/layer_costs.hpp"

namespace zeropp::plan {

namespace {

using zero::Op;
using zero::OpKind;
using zero::StreamId;

/// Seconds of a step's phases.
struct PhaseSeconds {
  double optimizer = 0;
  double forward = 0;
  double backward = 0;
};

/// Seconds of each phase: the compute stream is in one from the end of what it did before to the
/// end of its last layer there.
PhaseSeconds phase_seconds(const zero::Schedule& schedule, const Timeline& timeline) {
  PhaseSeconds phases;
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
    (op.phase == zero::Phase::backward ? phases.backward : phases.forward) += end - at;
    at = end;
  }
  phases.backward += timeline.seconds - at;
  return phases;
}

/// Seconds of updates that the layers do not wait for, each but for its own unit.
double overlapped_update_seconds(const zero::Schedule& schedule, const Timeline& timeline) {
  double seconds = 0;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    const bool beside = op.kind == OpKind::update && op.stream != StreamId::compute;
    if (beside) seconds += timeline.spans[i].end - timeline.spans[i].begin;
  }
  return seconds;
}

/// Whether the engine has a layer gathered while it computes another.
bool can_overlap(const Workload& work, const EngineModel& engine) {
  if (engine.max_live_parameters <= 0) return true;
  double largest = 0;
  for (const zero::UnitPartition& unit : work.input.units) {
    largest = std::max(largest, static_cast<double>(unit.parameters));
  }
  return 2 * largest <= engine.max_live_parameters;
}

/// A part of a step that may be the largest, and its name.
struct Bound {
  Resource waited_for;
  bool is_compute;
  const char* name;

  [[nodiscard]] double seconds(const Timeline& timeline) const {
    return is_compute ? timeline.compute : timeline.exposed[static_cast<std::size_t>(waited_for)];
  }
};

Bound bound_of(const Timeline& timeline) {
  constexpr std::array<Bound, kResources> kExposed{
      {{Resource::rails, false, "communication across nodes"},
       {Resource::host, false, "the optimizer on the host"},
       {Resource::host_link, false, "links to the host"},
       {Resource::node_links, false, "communication inside nodes"},
       {Resource::copies, false, "copies inside nodes"},
       {Resource::gpu, false, "kernels beside the layers"},
       {Resource::none, false, "latency"}}};
  Bound bound{Resource::none, true, "compute"};
  for (const Bound& other : kExposed) {
    if (other.seconds(timeline) > bound.seconds(timeline)) bound = other;
  }
  return bound;
}

}  // namespace

zero::Schedule update_and_step_schedule(const zero::Schedule& update, const zero::Schedule& step,
                                        const zero::ScheduleInput& input,
                                        const EngineOrder& order) {
  zero::Schedule joined = update;
  if (order.updates_on_host) {  // nothing else is started: they may as well be on the stream of
                                // the layers
    for (Op& op : joined.ops) {
      if (op.kind == OpKind::update) op.stream = StreamId::compute;
    }
  }
  const std::size_t offset = update.ops.size();
  using ByUnit = std::vector<std::optional<std::size_t>>;
  ByUnit updates(input.units.size());  // none: part of `step`
  ByUnit refreshes(input.units.size());
  std::vector<std::size_t> others;          // that the whole step waits for
  std::optional<std::size_t> last_refresh;  // which all but layers wait for
  std::optional<std::size_t> last_update;
  for (std::size_t i = 0; i < offset; ++i) {
    Op& op = joined.ops[i];
    if (op.kind == OpKind::update) {
      updates[op.index] = last_update = i;
    } else {
      refreshes[op.index] = last_refresh = i;
      if (order.updates_on_host && last_update) op.waits_on.push_back(*last_update);
    }
    if (op.stream == StreamId::compute) others.push_back(i);
  }
  std::array<bool, zero::kStreams> begun{};
  std::optional<std::size_t> reduction;  // the last
  for (Op op : step.ops) {
    for (std::size_t& before : op.waits_on) before += offset;
    if (!std::exchange(begun[static_cast<std::size_t>(op.stream)], true)) {
      op.waits_on.insert(op.waits_on.end(), others.begin(), others.end());
      if (last_refresh && op.stream != StreamId::compute) op.waits_on.push_back(*last_refresh);
    }
    const auto wait_for = [&](const ByUnit& earlier, std::size_t unit) {
      if (earlier[unit]) op.waits_on.push_back(*earlier[unit]);
    };
    if (op.kind == OpKind::gather || op.kind == OpKind::exchange) wait_for(updates, op.index);
    if (op.kind == OpKind::forward) {
      for (const std::size_t unit : input.layers[op.index].units) wait_for(refreshes, unit);
    }
    if (op.kind == OpKind::reduce) {
      for (const zero::Segment& segment : input.buckets[op.index].segments)
        wait_for(updates, segment.unit);
    }
    if (op.kind == OpKind::reduce) {
      const auto before = std::exchange(reduction, joined.ops.size());
      if (order.reductions_in_turn && before) op.waits_on.push_back(*before);
    }
    joined.ops.push_back(std::move(op));
  }
  joined.arena_bytes = std::max(update.arena_bytes, step.arena_bytes);
  return joined;
}

namespace {

/// A schedule that was executed on paper, as far as the cluster's engine overlaps.
struct SimulatedStep {
  double overlap = 1;   ///< share of what overlapping saves that the engine reaches
  Timeline overlapped;  ///< of a full overlap
  Timeline serial;      ///< of none; empty where overlap is 1

  /// Value at the engine's overlap, of a quantity's values in the two timelines.
  [[nodiscard]] double at_overlap(double with_overlap, double without) const {
    return overlap < 1 ? without + overlap * (with_overlap - without) : with_overlap;
  }
};

/// Timelines of `schedule` on the cluster.
SimulatedStep simulate_step(const zero::Schedule& schedule, const Workload& work,
                            const Cluster& cluster) {
  const std::vector<OpCost> costs = op_costs(schedule, work, cluster);
  Sharing shared = sharing(cluster, work.config.rail_lanes);
  shared.kernel_wait = product_rest(work.config.model, work.config.train_micro_batch_size_per_gpu,
                                    config::compute_dtype(work.config), cluster.gpu);
  SimulatedStep made;
  made.overlap = can_overlap(work, cluster.engine) ? cluster.engine.overlap : 0;
  made.overlapped = simulate(schedule, costs, shared, work.input.overlap);
  if (made.overlap < 1) made.serial = simulate(schedule, costs, shared, false);
  return made;
}

/// Time of `schedule`, of which every micro-step is simulated. StepTime::schedule is left empty.
StepTime simulated_step_time(const zero::Schedule& schedule, const Workload& work,
                             const Cluster& cluster) {
  SimulatedStep found = simulate_step(schedule, work, cluster);
  const PhaseSeconds hidden = phase_seconds(schedule, found.overlapped);
  const PhaseSeconds bare =
      found.overlap < 1 ? phase_seconds(schedule, found.serial) : PhaseSeconds{};
  StepTime made;
  made.seconds = found.at_overlap(found.overlapped.seconds, found.serial.seconds);
  made.optimizer = found.at_overlap(hidden.optimizer, bare.optimizer);
  made.updates = overlapped_update_seconds(schedule, found.overlapped);
  made.forward = found.at_overlap(hidden.forward, bare.forward);
  made.backward = found.at_overlap(hidden.backward, bare.backward);
  made.compute = found.overlapped.compute;
  made.exposed =
      found.at_overlap(found.overlapped.exposed_seconds(), found.serial.exposed_seconds());
  const Bound bound = bound_of(found.overlap > 0 ? found.overlapped : found.serial);
  made.bound = bound.name;
  made.bound_share = (bound.is_compute ? made.compute
                                       : found.at_overlap(bound.seconds(found.overlapped),
                                                          bound.seconds(found.serial))) /
                     made.seconds;
  made.timeline = std::move(found.overlapped);
  return made;
}

/// Micro-steps that are simulated at first. The first, the second, which follows other gathers, and
/// the last are not like those between, of which it takes two to see that they repeat.
constexpr std::size_t kFewestMicroSteps = 5;
/// And at most.
constexpr std::size_t kMostMicroSteps = 64;
/// Micro-steps whose lengths differ by no more than this share repeat: it is what rounding makes.
constexpr double kRounding = 1e-10;

/// By micro-step: seconds until its last layer's backward ends.
std::vector<double> micro_step_ends(const zero::Schedule& schedule, const Timeline& timeline) {
  std::vector<double> ends(schedule.ops.back().micro_step + 1, 0);
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const Op& op = schedule.ops[i];
    if (op.kind == OpKind::backward) ends[op.micro_step] = timeline.spans[i].end;
  }
  return ends;
}

/// Seconds of a step of `micro_steps` micro-steps, of which `schedule` has some: those between the
/// first and the last are repeated. Nothing where they do not repeat yet.
std::optional<double> extrapolated_step_seconds(const zero::Schedule& schedule,
                                                const Timeline& timeline, std::size_t micro_steps) {
  const std::vector<double> ends = micro_step_ends(schedule, timeline);
  const std::size_t last = ends.size() - 1;
  if (ends.size() == micro_steps) return timeline.seconds;
  const double length = ends[last - 1] - ends[last - 2];
  const double before = ends[last - 2] - ends[last - 3];
  const bool repeats = std::abs(length - before) <= kRounding * ends[last];
  if (!repeats && ends.size() < kMostMicroSteps) return std::nullopt;
  return timeline.seconds + static_cast<double>(micro_steps - ends.size()) * length;
}

/// Schedule of a step of so many micro-steps, without its update. `secondary_valid`: it finds
/// secondary shards of its weights.
zero::Schedule step_schedule(const zero::ScheduleInput& planned, std::size_t micro_steps,
                             bool secondary_valid) {
  zero::ScheduleInput input = planned;
  input.micro_steps = micro_steps;
  return zero::make_step_schedule(input, secondary_valid);
}

/// Tokens that the model knows: the first tensor of a transformer is its token table.
std::size_t vocabulary_size(const std::vector<zero::Unit>& units) {
  return units.front().tensors.front().shape.front();
}

EngineOrder engine_order(const EngineModel& engine, const config::TrainConfig& config) {
  return {.updates_on_host = config.zero.offload_optimizer.enabled(),
          .reductions_in_turn = engine.reductions_at_a_time == 1};
}

Workload workload_of(const PlannedRun& run) {
  return {.config = run.config(),
          .topology = run.topology(),
          .input = run.plans().step.input,
          .codecs = run.plans().codecs,
          .choice = run.choice(),
          .vocab_size = vocabulary_size(run.model().units)};
}

/// Seconds of `update` and of the step of `run` that it lets begin. `secondary_valid`: the step
/// finds secondary shards of its weights.
double update_and_step_seconds(const zero::Schedule& update, const PlannedRun& run,
                               const Cluster& cluster, bool secondary_valid) {
  const Workload work = workload_of(run);
  const std::size_t all = work.config.gradient_accumulation_steps;
  for (std::size_t some = std::min(all, kFewestMicroSteps);; some = std::min(all, 2 * some)) {
    const zero::Schedule schedule =
        update_and_step_schedule(update, step_schedule(work.input, some, secondary_valid),
                                 work.input, engine_order(cluster.engine, run.config()));
    const SimulatedStep found = simulate_step(schedule, work, cluster);
    const auto with_overlap = extrapolated_step_seconds(schedule, found.overlapped, all);
    const auto without =
        found.overlap < 1 ? extrapolated_step_seconds(schedule, found.serial, all) : with_overlap;
    if (with_overlap && without) return found.at_overlap(*with_overlap, *without);
  }
}

}  // namespace

StepTime step_time(const PlannedRun& run, const Cluster& cluster) {
  const Workload work = workload_of(run);
  const zero::StepPlan& plan = run.plans().step;
  zero::Schedule schedule = update_and_step_schedule(plan.update, run.step_schedule(), work.input,
                                                     engine_order(cluster.engine, run.config()));
  StepTime made = simulated_step_time(schedule, work, cluster);
  if (plan.input.micro_steps > kFewestMicroSteps) made.seconds = step_seconds(run, cluster);
  made.schedule = std::move(schedule);
  return made;
}

double step_seconds(const PlannedRun& run, const Cluster& cluster) {
  return update_and_step_seconds(run.plans().step.update, run, cluster, run.follows_evaluation());
}

double separate_micro_steps_seconds(const PlannedRun& run, std::size_t micro_steps,
                                    const Cluster& cluster) {
  const double first = step_seconds(run, cluster);
  if (micro_steps == 1) return first;
  return first +
         static_cast<double>(micro_steps - 1) * update_and_step_seconds({}, run, cluster, true);
}

}  // namespace zeropp::plan

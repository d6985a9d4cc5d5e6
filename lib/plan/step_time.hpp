// How long an optimizer step takes on a cluster: the update and the step after it, as the engine
// chains them, simulated. Pure functions; seconds.
#pragma once

#include "lib/plan/cluster.hpp"
#include "lib/plan/op_costs.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/plan/simulate.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::plan {

/// Order of operations that an engine adds to the order of schedules.
struct EngineOrder {
  /// The code that starts the step runs the updates first, until the last has returned: all of the
  /// step waits for all updates.
  bool updates_on_host = false;
  bool reductions_in_turn = false;  ///< one begins when the one before it has ended
};

/// Schedule of the update of the step before, and of the step that it lets begin: `update` comes
/// first. Gathers, exchanges and reductions wait for their own units' updates, and the forward of a
/// layer for its own units' refreshes. The first operation on a stream waits for updates on compute
/// and, except on compute, for the last refresh. Programs that begin forward after the last refresh
/// are not modelled.
zero::Schedule update_and_step_schedule(const zero::Schedule& update, const zero::Schedule& step,
                                        const zero::ScheduleInput& input, const EngineOrder& order);

/// Durations in seconds.
struct StepTime {
  double seconds = 0;    ///< of the step
  double optimizer = 0;  ///< until the first forward begins
  double updates = 0;    ///< of the optimizer beside the gathers and layers of forward
  double forward = 0;    ///< of all micro-steps: the compute stream in forward, waits included
  double backward = 0;   ///< likewise, to the end of the step
  double compute = 0;    ///< forward and backward without waits
  double exposed = 0;    ///< the compute stream waits for others
  /// The largest part of the step: compute, links of the node, links between nodes, kernels of
  /// collectives and optimizer, or latency.
  const char* bound = "compute";
  double bound_share = 1;  ///< of the step that it takes
  zero::Schedule schedule;
  Timeline
      timeline;  ///< of a full overlap; a cluster's engine may reach less (EngineModel::overlap)
};

/// Time of the planned step (PlannedRun::plan_step()), which the update of the one before lets
/// begin. Throws Error(usage) for a model that is no transformer.
StepTime step_time(const PlannedRun& run, const Cluster& cluster);

/// Seconds of the planned step: step_time().seconds. Where there are many micro-steps, a few are
/// simulated: those between the first and the last are repeated, once they repeat themselves.
double step_seconds(const PlannedRun& run, const Cluster& cluster);

/// Seconds of a step of `micro_steps` micro-steps one after the other, each like the one of `run`,
/// and an update: of a program that overlaps nothing of two micro-steps. With hpZ the secondary
/// shards that the first makes serve the others.
double separate_micro_steps_seconds(const PlannedRun& run, std::size_t micro_steps,
                                    const Cluster& cluster);

}  // namespace zeropp::plan

// Plan made before the first step: the schedules, for every state that a step can find, their
// traffic and their memory. It is made once, from the options and the workspaces of the
// collectives.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/schedule.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::zero {

/// One schedule for each state in which a step can find hpZ's secondary shards.
struct BySecondary {
  Schedule stale;    ///< they hold other weights than the current ones, or there are none
  Schedule current;  ///< they hold the current weights

  [[nodiscard]] const Schedule& when(bool secondary_valid) const {
    return secondary_valid ? current : stale;
  }
};

struct StepPlan {
  ScheduleInput input;
  BySecondary step;        ///< forward, backward and reductions of a training step
  BySecondary evaluation;  ///< forward of one held-out batch
  Schedule update;
  Schedule initial;
  Volumes volumes;

  /// The largest arena that any of the schedules needs.
  [[nodiscard]] std::size_t arena_bytes() const;
};

/// Input that schedules are made of. `options` are resolved (no "auto"); `workspaces`, by unit, are
/// those of the gathers, and `bucket_memory`, by bucket, of the reductions.
ScheduleInput schedule_input(const Options& options, const std::vector<UnitPartition>& units,
                             const std::vector<Layer>& layers, std::vector<UnitMemory> workspaces,
                             std::vector<Bucket> buckets, std::vector<BucketMemory> bucket_memory);

/// The schedules alone: without volumes, which depend on the codecs in force (RankPlan::use()).
StepPlan make_schedules(ScheduleInput input);

}  // namespace zeropp::zero

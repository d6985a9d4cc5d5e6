// What a planned run will send and need: bytes by link class, phase and collective, and memory by
// category. A fold over the run's schedules; pure.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/comm/traffic.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::plan {

/// Of one step, over all ranks. `modelled` of the bytes are those of the vendor's collectives,
/// whose route is their own: the closed form of a ring.
struct StepTraffic {
  comm::Bytes forward;
  comm::Bytes backward;
  comm::Bytes update;  ///< stages 1 and 2 gather the updated weights
  comm::Bytes modelled;

  [[nodiscard]] comm::Bytes total() const;
};

struct Estimate {
  StepTraffic step;  ///< an ordinary step: the weights were updated by the one before
  StepTraffic
      step_same_weights;   ///< after an evaluation or a skipped step: hpZ's shards are current
  comm::Bytes initial;     ///< once, before the first step or evaluation (stages 1 and 2)
  comm::Bytes evaluation;  ///< of a micro-batch, right after a step
  /// Of the ordinary step: calls of each rank, wire bytes over all ranks; keys as in the trace. In
  /// the order in which a step first runs them.
  std::vector<trace::CollectiveRow> collectives;
  std::vector<zero::MemoryPart> memory;  ///< of a rank; parts of zero bytes included
  std::size_t memory_bytes = 0;          ///< sum of those that are not offloaded: a rank's peak
  std::size_t parameters = 0;            ///< of the model, without padding
  double tokens_per_step = 0;            ///< over all ranks
  double flops_per_step = 0;             ///< over all ranks, forward and backward; for MFU
};

Estimate estimate(const PlannedRun& run);

}  // namespace zeropp::plan

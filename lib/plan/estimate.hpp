// Traffic and memory of a planned run: bytes and messages by link class, phase and collective, and
// memory by category. A fold over the run's schedules; pure.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/collective/description.hpp"
#include "lib/comm/traffic.hpp"
#include "lib/plan/planned_run.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::plan {

/// Bytes, and the messages that carry them, over all ranks.
struct Sent {
  comm::Bytes bytes;
  collective::Messages messages;

  Sent& operator+=(const Sent& other);
  bool operator==(const Sent&) const = default;
};

/// Traffic of one step. `modelled` of it are the vendor's collectives, whose route is their own:
/// the closed form of a ring.
struct StepTraffic {
  Sent forward;
  Sent backward;
  Sent update;  ///< stages 1 and 2 gather the updated weights
  Sent modelled;

  [[nodiscard]] Sent total() const;
};

/// Collective of the planned step: calls of each rank, wire bytes over all ranks; keys as in the
/// trace.
struct PlannedCollective {
  trace::CollectiveRow row;
  collective::Messages messages;  ///< over all ranks
};

struct Estimate {
  StepTraffic step;  ///< the planned one (PlannedRun::plan_step())
  StepTraffic
      step_same_weights;  ///< after an evaluation or a skipped step: hpZ's shards are current
  Sent initial;           ///< once, before the first step or evaluation (stages 1 and 2)
  Sent evaluation;        ///< of a micro-batch, right after a step
  /// In the order in which a step first runs them.
  std::vector<PlannedCollective> collectives;
  std::vector<zero::MemoryPart> memory;  ///< of a rank; parts of zero bytes included
  std::size_t memory_bytes = 0;          ///< sum of those that are not offloaded: a rank's peak
  std::size_t parameters = 0;            ///< of the model, without padding
  double tokens_per_step = 0;            ///< over all ranks
  double flops_per_step = 0;             ///< over all ranks, forward and backward; for MFU
};

/// Throws Error(usage) where a step sends more over all ranks than 64 bits count.
Estimate estimate(const PlannedRun& run);

}  // namespace zeropp::plan

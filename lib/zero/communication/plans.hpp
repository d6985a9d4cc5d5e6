// All that a rank plans before it takes memory or sends a byte: how units are cut, their codecs,
// the collectives of weights and gradients, and the schedules. The one composition that the engine
// runs and that a planner asks without running it. Owns values and plans, and with error feedback
// its buffers; does not communicate.
#pragma once

#include <vector>

#include "lib/comm/world.hpp"
#include "lib/device/device.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/communication/gradient_reduce.hpp"
#include "lib/zero/communication/step_plan.hpp"
#include "lib/zero/communication/weight_gather.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// The buckets that `partitions` of units are reduced in. Throws Error(usage) where
/// reduce_bucket_size cuts them into more pieces than a schedule can have.
std::vector<Bucket> plan_buckets(const Options& options, const CodecTable& codecs,
                                 const std::vector<UnitPartition>& partitions,
                                 const std::vector<Layer>& layers, std::size_t world_size);

/// How the units of a model are cut, and which of them persist.
std::vector<UnitPartition> plan_units(const Options& options, const std::vector<Unit>& units,
                                      std::size_t world_size, std::size_t shard_groups);

struct Plans {
  /// `options` are resolved (no "auto"). Weights are gathered in `groups`, gradients reduced in
  /// `reduce_groups`, which both outlive this, as `recorder` does.
  Plans(const Options& options, const std::vector<Unit>& model_units,
        const std::vector<Layer>& layers, comm::Groups& groups, comm::Groups& reduce_groups,
        trace::Recorder& recorder, const Device& device);

  std::vector<UnitPartition> units;
  CodecTable codecs;
  WeightGather weights;
  GradientReduce gradients;
  StepPlan step;

  /// Puts the codecs of `choice` into force: what is gathered and reduced from now on, and its
  /// volumes.
  void use(const CodecChoice& choice);
  /// The trace row that `op` is counted in; null for what is no collective.
  [[nodiscard]] const trace::CollectiveRow* row(const Op& op, Phase phase) const;
};

}  // namespace zeropp::zero

// All that a rank plans before it takes memory or sends a byte: how units are cut, their codecs,
// what collectives of weights and gradients move and take, and the schedules. The engine runs it, a
// planner asks it of any rank of any job. Values.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/comm/shape.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/step_plan.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// Smallest step of a bucket's size: 8 of the largest blocks of the gradient codecs, so that a cut
/// never splits a block.
std::size_t bucket_quantum(const Options& options);

/// The buckets that `partitions` of units are reduced in. Throws Error(usage) where
/// reduce_bucket_size cuts them into more pieces than a schedule can have.
std::vector<Bucket> plan_buckets(const Options& options, const CodecTable& codecs,
                                 const std::vector<UnitPartition>& partitions,
                                 const std::vector<Layer>& layers, std::size_t world_size);

/// Partitions of the units of a model, and which of them persist.
std::vector<UnitPartition> plan_units(const Options& options, const std::vector<Unit>& units,
                                      std::size_t world_size, std::size_t shard_groups);

struct RankPlan {
  /// `options` are resolved (no "auto"). `job`: as this rank sees it where weights are gathered;
  /// `reducing`: where gradients are reduced. A run makes no group that nothing runs on, so that
  /// the nodes and rails of one may be missing in the other.
  RankPlan(const Options& options, const std::vector<Unit>& model_units,
           const std::vector<Layer>& layers, const comm::JobShape& job,
           const comm::JobShape& reducing);

  std::vector<UnitPartition> units;
  CodecTable codecs;
  CollectiveDescriptions collectives;
  StepPlan step;
  CodecChoice choice;  ///< in force

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return step.input.buckets; }
  [[nodiscard]] bool updates_in_backward() const { return step.input.slabs.enabled(); }
  /// Puts the codecs of `next` into force: description() and step.volumes are then theirs.
  void use(const CodecChoice& next);
  /// Ranks have agreed on the shape of the exact differences of a unit: step.volumes follow.
  void agree(std::size_t unit, const codec::ExactShape& shape);
  /// Messages that this rank sends in one run of each collective, with the codecs in force.
  [[nodiscard]] Volumes messages() const;
  /// Description of the collective that `op` is, with its codecs in force; null for an operation
  /// that is none. Throws std::logic_error for a collective that this plan does not have.
  [[nodiscard]] const collective::Description* description(const Op& op) const;
};

}  // namespace zeropp::zero

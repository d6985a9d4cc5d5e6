// Bytes and memory of the candidates of a search: the same numbers as PlannedRun's, in a small
// share of the time. Parts of a plan are made once for all candidates with the same options, but
// for those that the part does not read: the key of a part is its options, without these. Units and
// buckets that are alike are described once. A step of many micro-steps is folded from one of two:
// each further one repeats the second, but where weights stay gathered (stage3_max_reuse_distance).
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "kernels/optim/moments.hpp"
#include "lib/comm/shape.hpp"
#include "lib/comm/topology.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/step_plan.hpp"
#include "lib/zero/plan/unit_model.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::plan {

struct CandidatePlan {
  comm::Bytes step;        ///< of an ordinary step, over all ranks; kUncounted where it is too much
  std::size_t memory = 0;  ///< bytes of a rank on its device, without activations
  /// Bytes of a step that a rank moves between its GPU and hpZ's copies in the host's memory.
  double over_link = 0;
};

/// Used by one thread at a time.
class CandidatePlans {
 public:
  /// `topology` is uniform.
  CandidatePlans(const comm::Topology& topology, std::vector<zero::Unit> units,
                 std::vector<zero::Layer> layers);

  /// `options` are resolved; without codec schedule, adaptive bits, error feedback and measured
  /// errors. `kept`: what the optimizer keeps for a parameter.
  CandidatePlan plan(const zero::Options& options, const optim::Kept& kept);

 private:
  template <class Part>
  using Parts = std::deque<std::pair<zero::Options, Part>>;  ///< which do not move

  struct Weights {
    std::vector<zero::UnitPartition> units;
    zero::CodecTable codecs;  ///< of gradients only `none`
    std::vector<zero::UnitMemory> memory;
    zero::Volumes volumes;  ///< over all ranks
  };
  struct Reductions {
    std::vector<zero::Bucket> buckets;
    std::vector<zero::BucketMemory> memory;
    zero::Volumes volumes;  ///< over all ranks
  };

  [[nodiscard]] std::vector<zero::UnitPartition> partition(const zero::Options& options) const;
  [[nodiscard]] comm::JobShape seen_by(int rank, const zero::Options& options) const;
  [[nodiscard]] Weights plan_weights(const zero::Options& options) const;
  [[nodiscard]] Reductions plan_reductions(const zero::Options& options) const;
  const Weights& weights(zero::Options options);
  const Reductions& reductions(zero::Options options);
  const zero::StepPlan& schedules(zero::Options options, const Weights& weights,
                                  const Reductions& reductions);

  comm::Topology topology_;
  std::vector<zero::Unit> units_;
  std::vector<zero::Layer> layers_;
  Parts<Weights> weights_;
  Parts<Reductions> reductions_;
  /// By all sizes that a schedule reads; many candidates have the same sizes.
  std::map<std::vector<std::size_t>, Parts<zero::StepPlan>> schedules_;
};

}  // namespace zeropp::plan

// Plans of many configurations of one model on one topology. What they share is planned once, by
// what the engine plans with: the gathers of a codec and algorithm, the gathers inside an hpZ group
// size and the exchanges of weight differences, the reductions of a pair of codecs and algorithm,
// and the schedules of equal memory. A step of many micro-steps is folded from one of two: each
// further one repeats the second, but where weights stay gathered (stage3_max_reuse_distance),
// which plans them all. Tens of thousands of configurations a second; equal to PlannedRun, one by
// one.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/optim/moments.hpp"
#include "lib/comm/topology.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/step_plan.hpp"
#include "lib/zero/plan/unit_model.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::plan {

/// Plan of one configuration. What it points to lives as long as the SharedPlans.
struct SharedPlan {
  comm::Bytes step;       ///< of an ordinary step, over all ranks; kUncounted where it is too much
  std::size_t state = 0;  ///< bytes of a rank that outlive a step
  std::size_t arena = 0;  ///< and those that live within it
  /// Bytes of a step that a rank moves between its GPU and hpZ's copies in the host's memory.
  double copied_over_link = 0;
  /// Schedules of at most two micro-steps, or of all, without volumes, and shared: input.units may
  /// have another hpZ size.
  const zero::StepPlan* schedules = nullptr;
  const std::vector<zero::UnitPartition>* partition = nullptr;  ///< of this configuration
  const zero::CodecTable* codecs = nullptr;
  const std::vector<zero::Unit>* units = nullptr;
};

class SharedPlans {
 public:
  /// `topology` is uniform.
  SharedPlans(const comm::Topology& topology, std::vector<zero::Unit> units,
              std::vector<zero::Layer> layers);

  /// `options` are resolved; without codec schedule, adaptive bits, error feedback and measured
  /// errors. `kept`: what the optimizer keeps for a parameter.
  SharedPlan plan(const zero::Options& options, const optim::Kept& kept);

 private:
  struct Gathers {
    std::vector<zero::UnitMemory> workspaces;
    zero::Volumes volumes;  ///< of weights, over all ranks
  };
  struct Reductions {
    std::vector<zero::Bucket> buckets;
    std::vector<zero::BucketMemory> memory;
    std::vector<comm::Bytes> bytes;       ///< by bucket, over all ranks
    std::vector<comm::Bytes> gather_sum;  ///< likewise; stage 0
  };

  const std::vector<zero::UnitPartition>& partition(const zero::Options& options);
  const zero::CodecTable& codecs(const zero::Options& options);
  /// Gathers over all ranks: of whole weights, and at stages 1 and 2 of weight differences.
  const Gathers& gathers(const zero::Options& options);
  /// Gathers of secondary shards, and at stage 3 the exchanges of weight differences between them.
  const Gathers& secondary_gathers(const zero::Options& options);
  const Reductions& reductions(const zero::Options& options);
  Gathers plan_gathers(const zero::Options& options);
  const zero::StepPlan& schedules(const zero::Options& options, const Gathers& global,
                                  const Gathers* secondary, const Reductions& reductions);

  comm::Topology topology_;
  std::vector<zero::Unit> units_;
  std::vector<zero::Layer> layers_;
  std::vector<zero::Unit> kinds_;     ///< units of one size are planned once
  std::vector<std::size_t> kind_of_;  ///< by unit
  std::map<std::string, std::vector<zero::UnitPartition>> partitions_;
  std::map<std::string, zero::CodecTable> codecs_;
  std::map<std::string, Gathers> gathers_;
  std::map<std::string, Gathers> secondary_;
  std::map<std::string, Reductions> reductions_;
  std::map<std::vector<std::size_t>, zero::StepPlan> schedules_;
};

}  // namespace zeropp::plan

// A training run that is not there, planned by what the engine plans with: the units and their
// partition, what collectives move and take, the schedules, the memory. Any number of ranks, no
// device, no MPI, no memory but the lists. Nodes are alike: what all ranks send is what those of
// one node send, times the nodes.
#pragma once

#include <vector>

#include "lib/comm/topology.hpp"
#include "lib/config/train_config.hpp"
#include "lib/model/description.hpp"
#include "lib/zero/plan/rank_plan.hpp"
#include "lib/zero/plan/state_memory.hpp"
#include "lib/zero/plan/volume.hpp"

namespace zeropp::plan {

/// Sizing of the model of a resolved configuration, on a back end that need not be there.
model::Sizing sizing_of(const config::TrainConfig& config, std::size_t source_vocab_size);

/// Steps before the first ordinary one of a run: 1 with weight differences at stage 3, whose first
/// step sends whole weights; else 0. At stages 1 and 2 whole weights go before the first step.
std::size_t ordinary_step(const zero::Options& options);

class PlannedRun {
 public:
  /// `config` is resolved (no "auto", no size of 0 but the vocabulary's), for this topology, which
  /// is uniform. `source_vocab_size`: of the token source. Throws Error(usage) for a model that
  /// cannot be, and for adaptive bits: which widths they take nobody knows before the run.
  PlannedRun(const config::TrainConfig& config, const comm::Topology& topology,
             std::size_t source_vocab_size);

  /// Plans the step after `step` others: with its codecs (zeropp.codec_schedule), and with weights
  /// that an evaluation right before it gathered, where zeropp.evaluation_interval has one there.
  /// Until it is called the step is the first of a run without evaluations.
  void plan_step(std::size_t step);
  /// Steps before the planned one.
  [[nodiscard]] std::size_t step() const { return step_; }
  /// Whether the planned step finds secondary shards of its weights: an evaluation made them.
  [[nodiscard]] bool follows_evaluation() const { return follows_evaluation_; }
  /// Forward, backward and reductions of the planned step.
  [[nodiscard]] const zero::Schedule& step_schedule() const {
    return first_.step.step.when(follows_evaluation_);
  }
  /// Codecs in force.
  [[nodiscard]] const zero::CodecChoice& choice() const { return first_.choice; }

  [[nodiscard]] const config::TrainConfig& config() const { return config_; }
  [[nodiscard]] const comm::Topology& topology() const { return topology_; }
  [[nodiscard]] const model::Description& model() const { return model_; }
  /// Plans of rank 0: partition, codecs, collectives and schedules. Volumes are those of rank 0
  /// alone.
  [[nodiscard]] const zero::RankPlan& plans() const { return first_; }
  /// Bytes of all ranks together, in one run of each collective.
  [[nodiscard]] const zero::Volumes& over_ranks() const { return over_ranks_; }
  /// Messages of all ranks together, in one run of each collective.
  [[nodiscard]] const zero::Volumes& messages() const { return messages_; }
  /// Memory of one rank, with the names of the trace's group /memory; parts of zero bytes included.
  [[nodiscard]] std::vector<zero::MemoryPart> memory() const;

 private:
  /// The job as rank `rank` sees it.
  [[nodiscard]] comm::JobShape seen_by(int rank) const;
  /// Adds up the traffic of all ranks with the codecs in force.
  void add_up();

  config::TrainConfig config_;
  comm::Topology topology_;
  model::Description model_;
  zero::RankPlan first_;
  std::size_t step_ = 0;
  bool follows_evaluation_ = false;
  zero::Volumes over_ranks_;
  zero::Volumes messages_;
};

/// Bytes of the parts that lie on the device of a rank.
std::size_t device_bytes(const std::vector<zero::MemoryPart>& parts);

}  // namespace zeropp::plan

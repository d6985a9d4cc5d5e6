#include "lib/zero/communication/weight_gather.hpp"

#include <algorithm>

namespace zeropp::zero {

namespace {

constexpr std::array<const char*, 5> kPhaseNames{"forward", "backward", "evaluation", "update",
                                                 "initial"};

std::size_t index_of(Phase phase) { return static_cast<std::size_t>(phase); }

}  // namespace

Phase training_phase(const Op& op) {
  if (op.kind == OpKind::refresh) return Phase::update;
  return op.backward_phase ? Phase::backward : Phase::forward;
}

WeightGather::WeightGather(const Options& options, const CodecTable& codecs,
                           const std::vector<UnitPartition>& units, comm::Groups& groups,
                           trace::Recorder& recorder, const Device& device)
    : choice_(units.size(), 0) {
  comm::Groups& sharding = groups.sharding();
  const collective::Context over_shards{sharding, *sharding.world, recorder, device};
  for (std::size_t u = 0; u < units.size(); ++u) {
    const UnitPartition& unit = units[u];
    const std::vector<Phase> phases =
        stage_preset(options.stage).shard_parameters && !unit.persistent
            ? std::vector{Phase::forward, Phase::backward, Phase::evaluation}
            : std::vector{Phase::update, Phase::initial};
    std::vector<ByPhase> global;
    for (const codec::CodecSpec& codec : codecs.weights(u)) {
      ByPhase& plans = global.emplace_back();
      for (const Phase phase : phases) {
        plans.at(index_of(phase)) =
            collective::plan_all_gather(options.all_gather_algorithm, over_shards,
                                        {collective::Parts::dense(unit.shard),
                                         options.compute,
                                         codec,
                                         options.pipeline_depth,
                                         {"weights", kPhaseNames.at(index_of(phase))}});
      }
    }
    ByPhase secondary;
    for (const Phase phase : phases) {
      if (unit.secondary == 0) continue;
      const collective::Context in_group{groups, *groups.secondary, recorder, device};
      secondary.at(index_of(phase)) =
          collective::plan_all_gather(options.secondary_gather_algorithm, in_group,
                                      {collective::Parts::dense(unit.secondary),
                                       options.compute,
                                       {},
                                       1,
                                       {"weights_secondary", kPhaseNames.at(index_of(phase))}});
    }
    global_.push_back(std::move(global));
    secondary_.push_back(std::move(secondary));
  }
}

collective::AllGather& WeightGather::global(std::size_t unit, Phase phase) const {
  return *global_[unit][choice_[unit]].at(index_of(phase));
}

collective::AllGather& WeightGather::secondary(std::size_t unit, Phase phase) const {
  return *secondary_[unit].at(index_of(phase));
}

const collective::AllGather* WeightGather::any_of(const ByPhase& plans) {
  for (const auto& plan : plans) {
    if (plan) return plan.get();
  }
  return nullptr;
}

comm::Bytes WeightGather::volume(std::size_t unit, std::size_t codec) const {
  return any_of(global_[unit][codec])->volume();
}

void WeightGather::add_volumes(Volumes& volumes) const {
  for (std::size_t unit = 0; unit < global_.size(); ++unit) {
    const collective::AllGather* secondary = any_of(secondary_[unit]);
    volumes.gather.push_back(volume(unit, choice_[unit]));
    volumes.refresh.push_back(volume(unit, choice_[unit]));
    volumes.gather_secondary.push_back(secondary ? secondary->volume() : comm::Bytes{});
  }
}

void WeightGather::add_messages(Volumes& messages) const {
  for (std::size_t unit = 0; unit < global_.size(); ++unit) {
    const collective::Messages global = any_of(global_[unit][choice_[unit]])->messages();
    const collective::AllGather* secondary = any_of(secondary_[unit]);
    messages.gather.push_back(global);
    messages.refresh.push_back(global);
    messages.gather_secondary.push_back(secondary ? secondary->messages() : collective::Messages{});
  }
}

void WeightGather::add_memory(std::vector<UnitMemory>& memory) const {
  for (std::size_t unit = 0; unit < global_.size(); ++unit) {
    const collective::AllGather* secondary = any_of(secondary_[unit]);
    std::size_t& workspace = memory[unit].gather_workspace;
    for (const ByPhase& plans : global_[unit]) {
      workspace = std::max(workspace, any_of(plans)->workspace_bytes());
    }
    memory[unit].refresh_workspace = workspace;
    memory[unit].secondary_workspace = secondary ? secondary->workspace_bytes() : 0;
  }
}

}  // namespace zeropp::zero

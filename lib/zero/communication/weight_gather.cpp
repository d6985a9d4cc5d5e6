#include "lib/zero/communication/weight_gather.hpp"

#include <utility>

namespace zeropp::zero {

WeightGather::WeightGather(const Options& options, const CodecTable& codecs,
                           const std::vector<UnitPartition>& units, comm::Groups& groups,
                           trace::Recorder& recorder, const Device& device)
    : choice_(units.size(), 0) {
  comm::Groups& sharding = groups.sharding();
  const collective::Context over_shards{sharding, *sharding.world, recorder, device};
  for (std::size_t u = 0; u < units.size(); ++u) {
    const UnitPartition& unit = units[u];
    const std::vector<Phase> phases = gather_phases(options, unit);
    std::vector<ByPhase> global;
    for (const codec::CodecSpec& codec : codecs.weights(u)) {
      ByPhase& plans = global.emplace_back();
      for (const Phase phase : phases) {
        plans.at(index_of(phase)) = collective::plan_all_gather(
            options.all_gather_algorithm, over_shards, weight_gather(options, unit, codec, phase));
      }
    }
    global_.push_back(std::move(global));
    auto& secondary = secondary_.emplace_back();
    if (unit.secondary == 0) continue;
    const collective::Context in_group{groups, *groups.secondary, recorder, device};
    for (const Phase phase : phases) {
      for (std::size_t piece = 0; piece < unit.secondary_pieces; ++piece) {
        secondary.at(index_of(phase))
            .push_back(collective::plan_all_gather(options.secondary_gather_algorithm, in_group,
                                                   secondary_gather(options, unit, phase)));
      }
    }
  }
}

const std::vector<std::unique_ptr<collective::AllGather>>& WeightGather::secondary(
    std::size_t unit, Phase phase) const {
  return secondary_[unit].at(index_of(phase));
}

}  // namespace zeropp::zero

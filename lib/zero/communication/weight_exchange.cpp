#include "lib/zero/communication/weight_exchange.hpp"

#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

WeightExchange::WeightExchange(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, comm::Groups& groups,
                               trace::Recorder& recorder, const Device& device)
    : options_(options), units_(units), device_(device) {
  if (!options.weight_differences.enabled) return;
  const collective::Context rail{groups, *groups.rail, recorder, device};
  node_ = static_cast<std::size_t>(groups.rail->rank());
  rail_ = groups.node->rank();
  for (std::size_t u = 0; u < units.size(); ++u) {
    ByPhase& differences = difference_.emplace_back();
    auto& whole = whole_.emplace_back(codecs.weights(u).size());
    if (units[u].secondary == 0) continue;
    for (const Phase phase : gather_phases(options, units[u])) {
      differences.at(index_of(phase)) =
          collective::plan_all_gather(kExchange, rail, difference_gather(options, units[u], phase));
      for (std::size_t c = 0; c < whole.size(); ++c) {
        whole[c].at(index_of(phase)) = collective::plan_all_gather(
            kExchange, rail, copy_gather(options, units[u], codecs.weights(u)[c], phase));
      }
    }
  }
}

void WeightExchange::start(std::size_t unit, Phase phase, ConstView shard, View copy,
                           std::span<std::byte> workspace, StreamHandle stream, std::uint64_t key) {
  const std::uint64_t draws = draws_of(key, Group::rails, rail_);
  collective::AllGather& rail = gather(unit, phase);
  if (choice_.whole_weights) return rail.start(shard, copy, workspace, stream, draws);
  const std::size_t count = units_[unit].shard;
  const View difference(workspace.data(), count, options_.compute, device_.memory);
  const View own = copy.part(node_ * count, count);
  device_.memory_ops->subtract(shard, own, difference, stream);
  rail.start(difference, copy, workspace.subspan(difference_bytes(options_, units_[unit])), stream,
             draws);
}

void WeightExchange::finish(std::size_t unit, Phase phase, StreamHandle stream) {
  gather(unit, phase).finish(stream);
}

collective::AllGather& WeightExchange::gather(std::size_t unit, Phase phase) const {
  const ByPhase& plans =
      choice_.whole_weights ? whole_[unit][choice_.weights[unit]] : difference_[unit];
  return *plans.at(index_of(phase));
}

}  // namespace zeropp::zero

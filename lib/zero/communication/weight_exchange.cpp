#include "lib/zero/communication/weight_exchange.hpp"

#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

WeightExchange::WeightExchange(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, comm::Groups& groups,
                               trace::Recorder& recorder, const Device& device)
    : options_(options), units_(units), device_(device), staged_(units.size()) {
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
  View there = copy;  // where it is brought up to date
  if (units_[unit].secondary_on_host) {
    there = View(workspace.data(), copy.count, copy.dtype, device_.memory);
    workspace = workspace.subspan(staged_copy_bytes(units_[unit]));
    staged_[unit] = {.on_device = there, .on_host = copy};
    if (!choice_.whole_weights) device_.memory_ops->copy(copy, there, stream);
  }
  if (choice_.whole_weights) return rail.start(shard, there, workspace, stream, draws);
  const std::size_t count = units_[unit].shard;
  const View difference(workspace.data(), count, options_.compute, device_.memory);
  const View own = there.part(node_ * count, count);
  device_.memory_ops->subtract(shard, own, difference, stream);
  rail.start(difference, there, workspace.subspan(difference_bytes(options_, units_[unit])), stream,
             draws);
}

void WeightExchange::finish(std::size_t unit, Phase phase, StreamHandle stream) {
  gather(unit, phase).finish(stream);
  if (!units_[unit].secondary_on_host) return;
  device_.memory_ops->copy(staged_[unit].on_device, staged_[unit].on_host, stream);
}

collective::AllGather& WeightExchange::gather(std::size_t unit, Phase phase) const {
  const ByPhase& plans =
      choice_.whole_weights ? whole_[unit][choice_.weights[unit]] : difference_[unit];
  return *plans.at(index_of(phase));
}

}  // namespace zeropp::zero

#include "lib/zero/communication/weight_exchange.hpp"

#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

WeightExchange::WeightExchange(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, comm::Groups& groups,
                               trace::Recorder& recorder, const Device& device)
    : options_(options), units_(units), device_(device), staged_(units.size()) {
  if (options.refreshes_differences()) {
    comm::Groups& sharding = groups.sharding();
    const collective::Context over_shards{sharding, *sharding.world, recorder, device};
    own_ = static_cast<std::size_t>(sharding.world->rank());
    for (const UnitPartition& unit : units) {
      ByPhase& differences = difference_.emplace_back();
      for (const Phase phase : gather_phases(options, unit)) {
        differences.at(index_of(phase)) = collective::plan_all_gather(
            options.all_gather_algorithm, over_shards, difference_gather(options, unit, phase));
      }
    }
  }
  if (!options.exchanges_differences()) return;
  const collective::Context rail{groups, *groups.rail, recorder, device};
  own_ = static_cast<std::size_t>(groups.rail->rank());
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
  View there = copy;  // where it is brought up to date
  if (units_[unit].secondary_on_host) {
    there = View(workspace.data(), copy.count, copy.dtype, device_.memory);
    workspace = workspace.subspan(staged_copy_bytes(units_[unit]));
    staged_[unit] = {.on_device = there, .on_host = copy};
    if (!choice_.whole_weights) device_.memory_ops->copy(copy, there, stream);
  }
  if (choice_.whole_weights)
    return gather(unit, phase).start(shard, there, workspace, stream, draws);
  start_differences(unit, phase, shard, there, workspace, stream, draws);
}

void WeightExchange::start_differences(std::size_t unit, Phase phase, ConstView shard, View copy,
                                       std::span<std::byte> workspace, StreamHandle stream,
                                       std::uint64_t draws) {
  const std::size_t count = units_[unit].shard;
  const View difference(workspace.data(), count, options_.compute, device_.memory);
  const View own = copy.part(own_ * count, count);
  device_.memory_ops->subtract(shard, own, difference, stream);
  difference_[unit]
      .at(index_of(phase))
      ->start(difference, copy, workspace.subspan(difference_bytes(options_, units_[unit])), stream,
              draws);
}

collective::AllGather& WeightExchange::start_refresh(std::size_t unit, Phase phase, ConstView shard,
                                                     View resident, std::span<std::byte> workspace,
                                                     StreamHandle stream, std::uint64_t key) {
  start_differences(unit, phase, shard, resident, workspace, stream, key);
  return *difference_[unit].at(index_of(phase));
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

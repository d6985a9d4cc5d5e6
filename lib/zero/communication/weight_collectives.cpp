#include "lib/zero/communication/weight_collectives.hpp"

#include "lib/zero/plan/draw_keys.hpp"

namespace zeropp::zero {

WeightCollectives::WeightCollectives(const Options& options, const CodecTable& codecs,
                                     const std::vector<UnitPartition>& units, comm::Groups& groups,
                                     trace::Recorder& recorder, const Device& device)
    : options_(options),
      units_(units),
      device_(device),
      staged_(units.size()),
      exact_(units.size()),
      choice_{.weights = std::vector<std::size_t>(units.size(), 0), .gradients = {}} {
  if (options.refreshes_differences())
    own_ = static_cast<std::size_t>(groups.sharding().world->rank());
  if (options.exchanges_differences()) {
    own_ = static_cast<std::size_t>(groups.rail->rank());
    rail_ = groups.node->rank();
  }
  const auto context_of = [&](RankGroup among) -> collective::Context {
    if (among == RankGroup::rail) return {groups, *groups.rail, recorder, device};
    if (among == RankGroup::secondary) return {groups, *groups.secondary, recorder, device};
    return {groups.sharding(), *groups.sharding().world, recorder, device};
  };
  for_each_weight_collective(options, codecs, units, [&](const Collective& made) {
    if (const collective::ExactGatherPlan* const exact = made.exact()) {
      exact_[made.key.index].gather =
          std::make_unique<collective::ExactGather>(made.algorithm, context_of(made.among), *exact);
      return;
    }
    Gathers gathers;
    for (std::size_t piece = 0; piece < made.runs; ++piece) {
      gathers.push_back(
          collective::plan_all_gather(made.algorithm, context_of(made.among), made.gather()));
    }
    made_.add(made.key, std::move(gathers));
  });
}

void WeightCollectives::count_differences(std::size_t unit, ConstView shard, ConstView copy,
                                          std::span<std::byte> workspace, codec::Escapes* escapes,
                                          StreamHandle stream) const {
  const std::size_t count = units_[unit].shard;
  exact_[unit].gather->count(shard, copy.part(own_ * count, count), workspace, escapes, stream);
}

void WeightCollectives::start_copy(std::size_t unit, ConstView shard, View copy,
                                   collective::Run run) {
  run.key = draws_of(run.key, Group::rails, rail_);
  View there = copy;  // where it is brought up to date
  if (units_[unit].secondary_on_host) {
    there = View(run.workspace.data(), copy.count, copy.dtype, device_.memory);
    run.workspace = run.workspace.subspan(staged_copy_bytes(units_[unit]));
    staged_[unit] = {.on_device = there, .on_host = copy};
    if (!choice_.whole_weights) device_.memory_ops->copy(copy, there, run.stream);
  }
  if (choice_.whole_weights) {
    to_copy(unit).start(shard, there, run);
  } else {
    start_differences(unit, shard, there, run);
  }
}

void WeightCollectives::start_differences(std::size_t unit, ConstView shard, View copy,
                                          collective::Run run) {
  if (exact_[unit].gather) {
    exact_[unit].gather->start(shard, copy, exact_[unit].shape, run);
    return;
  }
  const std::size_t count = units_[unit].shard;
  const View difference(run.workspace.data(), count, options_.compute, device_.memory);
  const View own = copy.part(own_ * count, count);
  device_.memory_ops->subtract(shard, own, difference, run.stream);
  run.workspace = run.workspace.subspan(difference_bytes(options_, units_[unit]));
  of_differences(unit).start(difference, copy, run);
}

void WeightCollectives::finish_differences(std::size_t unit, StreamHandle stream) {
  if (exact_[unit].gather) {
    exact_[unit].gather->finish(stream);
  } else {
    of_differences(unit).finish(stream);
  }
}

void WeightCollectives::finish_copy(std::size_t unit, StreamHandle stream) {
  if (choice_.whole_weights) {
    to_copy(unit).finish(stream);
  } else {
    finish_differences(unit, stream);
  }
  if (!units_[unit].secondary_on_host) return;
  device_.memory_ops->copy(staged_[unit].on_device, staged_[unit].on_host, stream);
}

}  // namespace zeropp::zero

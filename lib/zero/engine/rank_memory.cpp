#include "lib/zero/engine/rank_memory.hpp"

#include "lib/zero/plan/offload_plan.hpp"

namespace zeropp::zero {

namespace {

std::vector<Buffer> of_fp32(const std::vector<UnitPartition>& units,
                            std::size_t UnitPartition::*count, MemoryKind kind) {
  std::vector<Buffer> made;
  made.reserve(units.size());
  for (const UnitPartition& unit : units)
    made.push_back(Buffer::zeros(unit.*count, Dtype::fp32, kind));
  return made;
}

/// Memory kind of the shards that are gathered.
MemoryKind memory_of_weights(const Options& options, const Device& device) {
  if (!options.offload_param.enabled()) return device.memory;
  return options.offload_param.pin_memory ? device.staging() : MemoryKind::host;
}

std::vector<Buffer> make_compute_shards(const Options& options,
                                        const std::vector<UnitPartition>& units,
                                        const Device& device) {
  std::vector<Buffer> made;
  if (!stage_preset(options.stage).shard_optimizer) return made;
  if (gathers_master(options.compute, options.offload_optimizer, options.offload_param))
    return made;
  const std::vector<bool> on_file = weights_on_file(units, options.offload_param);
  const MemoryKind kind = memory_of_weights(options, device);
  for (std::size_t u = 0; u < units.size(); ++u)
    made.push_back(Buffer::zeros(on_file[u] ? 0 : units[u].shard, options.compute, kind));
  return made;
}

std::vector<Buffer> make_resident_weights(const Options& options,
                                          const std::vector<UnitPartition>& units,
                                          const Device& device) {
  const StagePreset preset = stage_preset(options.stage);
  std::vector<Buffer> made;
  made.reserve(units.size());
  for (const UnitPartition& unit : units) {
    const bool resident = !preset.shard_parameters || unit.persistent;
    made.push_back(resident ? Buffer::zeros(unit.padded, options.compute, device.memory)
                            : Buffer());
  }
  return made;
}

}  // namespace

RankMemory::RankMemory(const Options& options, const RankPlan& plan, const comm::Groups& groups,
                       const Device& device)
    : arena(groups.make_memory(plan.step.arena_bytes())),
      compute_shards(make_compute_shards(options, plan.units, device)),
      resident_weights(make_resident_weights(options, plan.units, device)),
      weights(plan.units.size()),
      gradients(plan.units.size()),
      is_fresh(plan.units.size()),
      plan_(plan),
      preset_(stage_preset(options.stage)),
      compute_(options.compute) {
  const std::vector<UnitPartition>& units = plan.units;
  if (!preset_.shard_gradients)
    local_gradients = of_fp32(units, &UnitPartition::padded, device.memory);
  const GradientSlabs& slabs = plan.step.input.slabs;
  if (slabs.enabled()) {
    for (std::size_t i = 0; i < slabs.slabs; ++i)
      gradient_shards.push_back(Buffer::zeros(slabs.elements, Dtype::fp32, device.memory));
  } else if (preset_.shard_optimizer) {
    gradient_shards = of_fp32(units, &UnitPartition::shard, device.memory);
  }
  if (options.has_secondary()) {
    secondary.emplace(units, static_cast<std::size_t>(groups.secondary->rank()), device);
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!preset_.shard_parameters || units[u].persistent) weights[u] = resident(u);
    if (!preset_.shard_gradients)
      gradients[u] = local_gradients[u].view(units[u].padded, Dtype::fp32);
  }
}

std::vector<View> RankMemory::own_gradients() const {
  std::vector<View> own;
  for (std::size_t u = 0; u < plan_.units.size(); ++u) {
    own.push_back(preset_.shard_optimizer
                      ? gradient_shard(u)
                      : local_gradients[u].view(plan_.units[u].padded, Dtype::fp32));
  }
  return own;
}

View RankMemory::compute_shard(std::size_t unit) const {
  if (!preset_.shard_optimizer) return resident(unit);
  if (compute_shards.empty()) return {};
  return compute_shards[unit].view(compute_shards[unit].bytes() / size_of(compute_), compute_);
}

View RankMemory::resident(std::size_t unit) const {
  return resident_weights[unit].view(plan_.units[unit].padded, compute_);
}

View RankMemory::copy(std::size_t unit) const {
  return secondary ? secondary->shard(unit) : resident(unit);
}

View RankMemory::gradient_shard(std::size_t unit) const {
  const std::size_t count = plan_.units[unit].shard;
  const GradientSlabs& slabs = plan_.step.input.slabs;
  if (!slabs.enabled()) return gradient_shards[unit].view(count, Dtype::fp32);
  const GradientSlabs::Place& place = slabs.places[unit];
  return gradient_shards[place.turn % kGradientSlabs]
      .view(slabs.elements, Dtype::fp32)
      .part(place.offset, count);
}

View RankMemory::gradient_shard(const Segment& segment) const {
  return gradient_shard(segment.unit).part(segment.offset, segment.count);
}

View RankMemory::gathered(const Op& op) const {
  return arena.view(plan_.units[op.index].padded, compute_, op.result);
}

View RankMemory::whole_gradients(const Op& op) const {
  if (!preset_.shard_gradients)
    return local_gradients[op.index].view(plan_.units[op.index].padded, Dtype::fp32);
  const UnitPartition& unit = plan_.units[op.index];
  return arena.view(unit.padded, unit.gradients, op.result);
}

View RankMemory::sum(const Op& op) const {
  const Bucket& bucket = plan_.step.input.buckets[op.index];
  return op.result == kNoMemory ? gradient_shard(bucket.segments.front())
                                : arena.view(bucket.count(), Dtype::fp32, op.result);
}

std::span<std::byte> RankMemory::replica_image(const Op& op) const {
  return arena.span().subspan(op.result);
}

std::span<std::byte> RankMemory::workspace(const Op& op) const {
  const std::span<std::byte> all = arena.span();
  return op.workspace == kNoMemory ? std::span<std::byte>{} : all.subspan(op.workspace);
}

}  // namespace zeropp::zero

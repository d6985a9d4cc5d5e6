// What a checkpoint keeps of an engine, and how an engine goes on from it.
#include <algorithm>
#include <utility>

#include "lib/zero/engine.hpp"

namespace zeropp::zero {

namespace {

/// Of a unit's flat buffer, the elements that shard `rank` has.
Extent part_of(const UnitPartition& unit, std::size_t rank) {
  const std::size_t begin = std::min(rank * unit.shard, unit.flat);
  return {begin, std::min(unit.shard, unit.flat - begin)};
}

checkpoint::Slice slice_of(std::string array, const UnitPartition& unit, const Extent& part) {
  return {std::move(array), sizeof(float), unit.flat, part.begin, part.count};
}

}  // namespace

std::vector<std::pair<std::string, View>> Engine::kept_arrays(std::size_t unit) const {
  const std::string& name = model_.units()[unit].name;
  std::vector<std::pair<std::string, View>> arrays{{name + "/master", optimizer_.master(unit)}};
  for (std::size_t i = 0; i < optimizer_.states(); ++i) {
    arrays.emplace_back(name + "/state" + std::to_string(i), optimizer_.state(unit, i));
  }
  return arrays;
}

std::vector<checkpoint::OwnedSlice> Engine::state() const {
  const auto rank = static_cast<std::size_t>(groups_.world->rank());
  std::vector<checkpoint::OwnedSlice> slices;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const Extent part = part_of(units_[u], rank);
    const std::size_t first = preset_.shard_optimizer ? 0 : part.begin;
    for (auto& [name, values] : kept_arrays(u)) {
      slices.push_back(
          {slice_of(std::move(name), units_[u], part), fetch(values.part(first, part.count))});
    }
  }
  return slices;
}

void Engine::restore(
    std::uint64_t steps_taken,
    const std::function<void(const checkpoint::Slice&, std::span<std::byte>)>& read) {
  const auto rank = static_cast<std::size_t>(groups_.world->rank());
  const Stream& compute = stream(StreamId::compute);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const Extent part =
        preset_.shard_optimizer ? part_of(units_[u], rank) : Extent{0, units_[u].flat};
    for (auto& [name, values] : kept_arrays(u)) {
      std::vector<float> memory(part.count);
      read(slice_of(std::move(name), units_[u], part), std::as_writable_bytes(std::span(memory)));
      const ConstView saved{memory.data(), part.count, Dtype::fp32};
      device_.memory_ops->copy(saved, values.part(0, part.count), compute.handle());
      compute.synchronize();  // `memory` ends here
    }
    cut(u, compute);
  }
  compute.synchronize();
  steps_taken_ = steps_taken;
  ++version_;
  gathered_initial_ = false;
}

}  // namespace zeropp::zero

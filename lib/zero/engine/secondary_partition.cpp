#include "lib/zero/engine/secondary_partition.hpp"

#include <stdexcept>
#include <string>

#include "lib/base/defect.hpp"

namespace zeropp::zero {

SecondaryPartition::SecondaryPartition(const std::vector<UnitPartition>& units, Dtype compute,
                                       std::size_t group_rank, const Device& device)
    : units_(units), compute_(compute), group_rank_(group_rank), device_(device) {
  for (const UnitPartition& unit : units_) {
    shards_.push_back({Buffer(unit.secondary * size_of(compute_), device_.memory)});
  }
}

void SecondaryPartition::keep(std::size_t unit, ConstView gathered, std::uint64_t version,
                              StreamHandle stream) {
  const std::size_t count = units_[unit].secondary;
  if (defect::planted(defect::Kind::secondary_stale) && shards_[unit].version % 2 == 1) {
    shards_[unit].version = version;  // and nothing is copied
    return;
  }
  device_.memory_ops->copy(gathered.part(group_rank_ * count, count),
                           shards_[unit].memory.view(count, compute_), stream);
  shards_[unit].version = version;
}

ConstView SecondaryPartition::read(std::size_t unit, std::uint64_t version) const {
  if (shards_[unit].version != version) {
    throw std::logic_error("hpZ: the secondary shard of unit " + std::to_string(unit) +
                           " holds weight version " + std::to_string(shards_[unit].version) +
                           ", not " + std::to_string(version));
  }
  return shards_[unit].memory.view(units_[unit].secondary, compute_);
}

std::size_t SecondaryPartition::bytes() const {
  std::size_t total = 0;
  for (const Shard& shard : shards_) total += shard.memory.bytes();
  return total;
}

}  // namespace zeropp::zero

#include "lib/zero/engine/secondary_partition.hpp"

#include <stdexcept>
#include <string>

#include "lib/base/defect.hpp"
#include "lib/base/fault.hpp"

namespace zeropp::zero {

SecondaryPartition::SecondaryPartition(const std::vector<UnitPartition>& units,
                                       std::size_t group_rank, const Device& device)
    : units_(units), group_rank_(group_rank), device_(device) {
  for (const UnitPartition& unit : units_) {
    const MemoryKind kind = unit.secondary_on_host ? device_.staging() : device_.memory;
    shards_.push_back({Buffer::zeros(unit.secondary, unit.secondary_dtype, kind)});
  }
}

void SecondaryPartition::keep(std::size_t unit, ConstView gathered, std::uint64_t version,
                              StreamHandle stream) {
  const std::size_t count = units_[unit].secondary;
  if (defect::planted(defect::Kind::secondary_stale) && shards_[unit].version % 2 == 1) {
    shards_[unit].version = version;  // and nothing is copied
    return;
  }
  const View kept = shard(unit);
  device_.memory_ops->copy(gathered.part(group_rank_ * count, count), kept, stream);
  fault::flip(fault::Values::secondary, version, unit, kept.data, kept.bytes());
  shards_[unit].version = version;
}

View SecondaryPartition::to_update(std::size_t unit, std::uint64_t version) {
  shards_[unit].version = version;
  return shard(unit);
}

View SecondaryPartition::shard(std::size_t unit) const {
  return shards_[unit].memory.view(units_[unit].secondary, units_[unit].secondary_dtype);
}

ConstView SecondaryPartition::part_to_gather(std::size_t unit, std::size_t piece, View full,
                                             std::byte* staging, std::uint64_t version,
                                             StreamHandle stream) const {
  if (shards_[unit].version != version) {
    throw std::logic_error("hpZ: the secondary shard of unit " + std::to_string(unit) +
                           " holds weight version " + std::to_string(shards_[unit].version) +
                           ", not " + std::to_string(version));
  }
  const std::size_t count = units_[unit].secondary / units_[unit].secondary_pieces;
  const View part = shard(unit).part(piece * count, count);
  if (!units_[unit].secondary_on_host) return part;
  // Transfers between GPUs are given memory of the device only. Nothing else lies there yet, and
  // the gather would put the part there as well.
  const View place = full.part(group_rank_ * count, count);
  if (part.dtype == place.dtype) {
    device_.memory_ops->copy(part, place, stream);
    return place;
  }
  // Copied first: a kernel that converts it out of the host's memory would be slower than the copy
  // engines, and take multiprocessors.
  const View staged(staging, count, part.dtype, device_.memory);
  device_.memory_ops->copy(part, staged, stream);
  device_.memory_ops->convert(staged, place, stream);
  return place;
}

std::size_t SecondaryPartition::bytes() const {
  std::size_t total = 0;
  for (const Shard& shard : shards_) total += shard.memory.bytes();
  return total;
}

}  // namespace zeropp::zero

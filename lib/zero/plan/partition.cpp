#include "lib/zero/plan/partition.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {

std::vector<Extent> gaps_of(const Unit& unit, std::size_t padded) {
  std::vector<Extent> gaps;
  std::size_t covered = 0;
  const auto skip_to = [&](std::size_t begin) {
    if (begin > covered) gaps.push_back({covered, begin - covered});
  };
  for (const Tensor& tensor : unit.tensors) {
    skip_to(tensor.offset);
    covered = tensor.offset + tensor.count();
  }
  skip_to(padded);
  return gaps;
}

}  // namespace

std::vector<UnitPartition> partition_units(const std::vector<Unit>& units, std::size_t world_size,
                                           std::size_t partition_size, Dtype compute,
                                           std::size_t shard_groups, std::size_t multiple) {
  const std::size_t alignment = std::max(16 / size_of(compute), multiple);
  std::vector<UnitPartition> partitions;
  for (const Unit& unit : units) {
    UnitPartition p;
    p.parameters = unit.parameters();
    p.flat = unit.count;
    p.canonical = round_up(ceil_div(p.flat, world_size), alignment);
    p.shard = shard_groups * p.canonical;
    p.padded = world_size * p.canonical;
    p.secondary = partition_size > 1 ? p.padded / partition_size : 0;
    p.secondary_dtype = compute;
    p.gaps = gaps_of(unit, p.padded);
    partitions.push_back(p);
  }
  return partitions;
}

void mark_persistent(std::vector<UnitPartition>& units, std::size_t threshold,
                     std::size_t model_threshold) {
  std::size_t left = model_threshold;
  for (UnitPartition& unit : units) {
    if (unit.parameters > threshold || unit.parameters > left) continue;
    left -= unit.parameters;
    unit.persistent = true;
    unit.secondary = 0;
  }
}

void rail_copies(std::vector<UnitPartition>& units, std::size_t nodes, Dtype dtype) {
  for (UnitPartition& unit : units) {
    unit.secondary = nodes * unit.shard;
    unit.secondary_pieces = nodes;
    unit.secondary_dtype = dtype;
  }
}

bool copies_on_host(const std::vector<UnitPartition>& units) {
  return std::ranges::any_of(units, &UnitPartition::secondary_on_host);
}

std::size_t Bucket::count() const {
  std::size_t total = 0;
  for (const Segment& segment : segments) total += segment.count;
  return total;
}

std::size_t replica_part(const Bucket& bucket, std::size_t shard_groups, Dtype compute) {
  return round_up(ceil_div(bucket.count(), shard_groups), 16 / size_of(compute));
}

std::vector<std::size_t> first_layers(const std::vector<Layer>& layers, std::size_t unit_count) {
  std::vector<std::size_t> first(unit_count, layers.size());
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    for (const std::size_t unit : layers[layer].units) first[unit] = layer;
  }
  return first;
}

std::vector<std::size_t> gradient_order(const std::vector<Layer>& layers, std::size_t unit_count) {
  const std::vector<std::size_t> first_layer = first_layers(layers, unit_count);
  std::vector<std::size_t> order;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    for (const std::size_t unit : layers[layer].units) {
      if (first_layer[unit] == layer) order.push_back(unit);
    }
  }
  return order;
}

std::size_t bucket_capacity(std::size_t bucket_size, std::size_t world_size, std::size_t quantum) {
  return std::max(quantum, bucket_size / world_size / quantum * quantum);
}

std::vector<Bucket> make_buckets(const std::vector<UnitPartition>& units,
                                 const std::vector<std::size_t>& order, std::size_t world_size,
                                 std::size_t bucket_size, std::size_t quantum,
                                 const std::vector<std::size_t>& groups) {
  const std::size_t capacity = bucket_capacity(bucket_size, world_size, quantum);
  std::vector<Bucket> buckets;
  Bucket open;
  const auto close = [&] {
    if (!open.segments.empty()) buckets.push_back(std::exchange(open, {}));
  };
  const auto shares = [&](std::size_t unit) {
    if (open.segments.empty()) return true;
    const std::size_t first = open.segments.front().unit;
    return units[first].gradients == units[unit].gradients &&
           (groups.empty() || groups[first] == groups[unit]);
  };
  for (const std::size_t unit : order) {
    std::size_t offset = 0;
    std::size_t left = units[unit].shard;
    if (open.count() + left > capacity || !shares(unit)) close();
    for (; left > capacity; left -= capacity, offset += capacity) {
      buckets.push_back({{{unit, offset, capacity}}});
    }
    open.segments.push_back({unit, offset, left});
    if (open.count() * world_size >= kEnoughForBucket) close();
  }
  close();
  return buckets;
}

}  // namespace zeropp::zero

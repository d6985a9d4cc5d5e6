#include "lib/zero/plan/gradient_slabs.hpp"

#include <algorithm>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {

/// Shards begin on 256 bytes, as buffers do.
std::size_t room_of(const UnitPartition& unit) {
  constexpr std::size_t kAligned = 64;
  return round_up(unit.shard, kAligned);
}

std::size_t largest(const std::vector<UnitPartition>& units, const std::vector<Bucket>& buckets) {
  std::size_t most = 0;
  for (const Bucket& bucket : buckets) {
    std::size_t room = 0;
    for (const Segment& segment : bucket.segments) room += room_of(units[segment.unit]);
    most = std::max(most, room);
  }
  return most;
}

}  // namespace

GradientSlabs plan_gradient_slabs(const std::vector<UnitPartition>& units,
                                  const std::vector<Bucket>& buckets) {
  GradientSlabs made;
  made.places.resize(units.size());
  std::size_t together = 0;
  for (const UnitPartition& unit : units) together += room_of(unit);
  const std::size_t apart = largest(units, buckets);
  // Few units have no more in one slab, where none waits for another.
  made.elements = together <= kGradientSlabs * apart ? together : apart;
  std::size_t turn = 0;
  std::size_t used = 0;
  for (const Bucket& bucket : buckets) {
    for (const Segment& segment : bucket.segments) {
      if (segment.offset > 0) continue;  // a unit's first segment places all of it
      const std::size_t room = room_of(units[segment.unit]);
      if (used + room > made.elements) {
        ++turn;
        used = 0;
      }
      made.places[segment.unit] = {turn, used};
      used += room;
    }
  }
  made.slabs = std::min(turn + 1, kGradientSlabs);
  return made;
}

}  // namespace zeropp::zero

#include "lib/zero/plan/arena_planner.hpp"

#include <algorithm>
#include <iterator>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

std::size_t ArenaPlanner::allocate(std::size_t bytes, std::vector<std::size_t>& waits_on) {
  const std::size_t size = std::max(kGranule, round_up(bytes, kGranule));
  const auto hole = std::ranges::find_if(
      holes_, [&](const auto& each) { return each.second - each.first >= size; });
  const auto [begin, hole_end] = *hole;
  const std::size_t end = begin + size;
  holes_.erase(hole);
  if (end < hole_end) holes_.emplace(end, hole_end);
  live_.emplace(begin, end);
  peak_ = std::max(peak_, end);
  take_freed(begin, end, waits_on);
  return begin;
}

void ArenaPlanner::take_freed(std::size_t begin, std::size_t end,
                              std::vector<std::size_t>& waits_on) {
  auto at = freed_.lower_bound(begin);
  if (at != freed_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != freed_.end() && at->first < end) {
    const auto [freed_begin, freed] = *at;
    waits_on.insert(waits_on.end(), freed.operations.begin(), freed.operations.end());
    at = freed_.erase(at);
    if (freed_begin < begin) freed_.emplace(freed_begin, Freed{begin, freed.operations});
    if (end < freed.end) freed_.emplace(end, Freed{freed.end, freed.operations});
  }
}

void ArenaPlanner::release(std::size_t offset, const std::vector<std::size_t>& operations) {
  const auto found = live_.find(offset);
  auto [begin, end] = *found;
  live_.erase(found);
  freed_.insert_or_assign(begin, Freed{end, operations});
  auto next = holes_.lower_bound(begin);
  if (next->first == end) {  // the last hole has no end: there is always a next
    end = next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin() && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
  } else {
    holes_.emplace(begin, end);
  }
}

}  // namespace zeropp::zero

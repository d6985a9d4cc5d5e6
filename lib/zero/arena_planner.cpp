#include "lib/zero/arena_planner.hpp"

#include <algorithm>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

std::size_t ArenaPlanner::allocate(std::size_t bytes, std::vector<std::size_t>& waits_on) {
  constexpr std::size_t kGranule = 256;
  const std::size_t size = std::max(kGranule, round_up(bytes, kGranule));
  std::size_t begin = 0;
  for (const auto& [live_begin, live_end] : live_) {
    if (live_begin - begin >= size) break;
    begin = live_end;
  }
  const std::size_t end = begin + size;
  live_.emplace(begin, end);
  peak_ = std::max(peak_, end);
  for (const Freed& freed : freed_) {
    if (freed.begin < end && begin < freed.end) {
      waits_on.insert(waits_on.end(), freed.operations.begin(), freed.operations.end());
    }
  }
  std::erase_if(freed_,
                [&](const Freed& freed) { return begin <= freed.begin && freed.end <= end; });
  return begin;
}

void ArenaPlanner::release(std::size_t offset, const std::vector<std::size_t>& operations) {
  const auto found = live_.find(offset);
  freed_.push_back({found->first, found->second, operations});
  live_.erase(found);
}

}  // namespace zeropp::zero

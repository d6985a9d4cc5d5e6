#include "apps/fabric/doubts.hpp"

#include <algorithm>

namespace zeropp::fabric {

namespace {

bool is_disturbed(const FabricMap& map, const std::pair<std::size_t, std::size_t>& link) {
  return map.busy.contains(link.first) || map.busy.contains(link.second);
}

bool is_disturbed(const FabricMap& map, int rail) {
  return std::ranges::any_of(map.busy,
                             [&](std::size_t rank) { return map.local_ranks[rank].local == rail; });
}

}  // namespace

Doubts doubts_of(const FabricMap& map, const Judgement& judgement) {
  Doubts doubts{judgement.suspects, {}};
  for (const Fault& fault : judgement.faults) {
    if (fault.kind == Fault::Kind::rail) doubts.rails.insert(fault.first);
  }
  if (2 * map.busy.size() < map.ranks()) return doubts;
  for (std::size_t from = 0; from < map.ranks(); ++from) {
    for (std::size_t to = 0; to < map.ranks(); ++to) doubts.links.emplace_back(from, to);
    if (!map.rails.empty()) doubts.rails.insert(map.local_ranks[from].local);
  }
  return doubts;
}

bool is_disturbed(const FabricMap& map, const Doubts& doubts) {
  const auto is = [&](const auto& one) { return is_disturbed(map, one); };
  return std::ranges::any_of(doubts.links, is) || std::ranges::any_of(doubts.rails, is);
}

void take_back(FabricMap& map, const Doubts& doubts) {
  for (const auto& ends : doubts.links) {
    Link& link = map.link(ends.first, ends.second);
    if (is_disturbed(map, ends)) {
      link = {.latency = {}, .transfer = {}, .corrupted = link.corrupted};
    }
  }
  for (std::size_t rank = 0; rank < map.rails.size(); ++rank) {
    const int rail = map.local_ranks[rank].local;
    if (doubts.rails.contains(rail) && is_disturbed(map, rail)) map.rails[rank] = {};
  }
}

}  // namespace zeropp::fabric

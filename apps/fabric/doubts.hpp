// Links and rails that a survey measures again: those that look slow, or all where nothing tells
// what is typical. Pure functions of a map and its judgement: every rank has the same doubts.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "apps/fabric/judge.hpp"
#include "apps/fabric/map.hpp"

namespace zeropp::fabric {

struct Doubts {
  std::vector<std::pair<std::size_t, std::size_t>> links;
  std::set<int> rails;  ///< local ranks
};

/// Links and rails that look slow. Where half of the ranks or more are busy, all of them: even what
/// is typical may be the time of other work.
Doubts doubts_of(const FabricMap& map, const Judgement& judgement);

/// Whether any of the ranks at the ends of the links, or on the rails, is busy.
bool is_disturbed(const FabricMap& map, const Doubts& doubts);

/// Makes of the doubts about busy ranks something that was not measured. Damage stays.
void take_back(FabricMap& map, const Doubts& doubts);

}  // namespace zeropp::fabric

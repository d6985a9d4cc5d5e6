// The order in which pairs of ranks are measured: rounds of disjoint pairs, about as many rounds as
// ranks, together every pair once. On nodes of equal size a round has pairs inside nodes only, or
// joins whole nodes rank by rank: then every node's links to others are loaded alike, and what a
// round finds slow is slow beside its equals. Ranks of one rail come first.
#pragma once

#include <vector>

#include "lib/comm/topology.hpp"

namespace zeropp::fabric {

/// The rank that each rank meets, by rank; -1: nobody.
using Round = std::vector<int>;

/// A round-robin tournament of `players` by the circle method: players - 1 rounds of an even
/// number, players of an odd one, in each of which one sits out; none of one player.
std::vector<Round> tournament(int players);

/// All rounds for ranks with these local ranks.
std::vector<Round> pair_rounds(const std::vector<comm::LocalRank>& local_ranks);

}  // namespace zeropp::fabric

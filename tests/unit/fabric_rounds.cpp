// ctest: name=fabric_rounds timeout=30 labels=sanitize link=zeropp_app_fabric
// The rounds in which pairs meet: every pair once, disjoint, about as many rounds as ranks; on
// equal nodes every node is loaded alike in a round.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "apps/fabric/rounds.hpp"

namespace zeropp::fabric {
namespace {

std::vector<comm::LocalRank> nodes_of(const std::vector<int>& sizes) {
  std::vector<comm::LocalRank> ranks;
  for (int node = 0; node < static_cast<int>(sizes.size()); ++node) {
    for (int local = 0; local < sizes[static_cast<std::size_t>(node)]; ++local) {
      ranks.push_back({node, local});
    }
  }
  return ranks;
}

/// Every pair once, and each that a rank meets meets it.
void expect_all_pairs(const std::vector<Round>& rounds, std::size_t ranks) {
  std::set<std::pair<int, int>> met;
  for (const Round& round : rounds) {
    ASSERT_EQ(round.size(), ranks);
    for (int rank = 0; rank < static_cast<int>(ranks); ++rank) {
      const int peer = round[static_cast<std::size_t>(rank)];
      if (peer < 0) continue;
      ASSERT_NE(peer, rank);
      ASSERT_EQ(round.at(static_cast<std::size_t>(peer)), rank);
      if (rank < peer) {
        EXPECT_TRUE(met.insert({rank, peer}).second) << rank << " " << peer;
      }
    }
  }
  EXPECT_EQ(met.size(), ranks * (ranks - 1) / 2);
}

std::size_t rounds_of(int players) {
  return static_cast<std::size_t>(players < 2 ? 0 : players % 2 == 0 ? players - 1 : players);
}

TEST(Tournament, EveryPairOnceInAsFewRoundsAsCanBe) {
  for (int players = 1; players <= 33; ++players) {
    const auto rounds = tournament(players);
    expect_all_pairs(rounds, static_cast<std::size_t>(players));
    EXPECT_EQ(rounds.size(), rounds_of(players));
  }
}

TEST(PairRounds, EqualNodesAreLoadedAlike) {
  for (const auto& [nodes, locals] : {std::pair{1, 8}, {2, 2}, {3, 4}, {8, 1}, {5, 3}, {16, 8}}) {
    const auto ranks = nodes_of(std::vector<int>(static_cast<std::size_t>(nodes), locals));
    const auto rounds = pair_rounds(ranks);
    expect_all_pairs(rounds, ranks.size());
    EXPECT_EQ(rounds.size(),
              rounds_of(locals) + static_cast<std::size_t>(locals) * rounds_of(nodes));
    for (const Round& round : rounds) {
      std::map<int, int> inter;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (round[rank] < 0) continue;
        const comm::LocalRank& other = ranks[static_cast<std::size_t>(round[rank])];
        if (other.node != ranks[rank].node) ++inter[ranks[rank].node];
      }
      for (const auto& [node, links] : inter) EXPECT_EQ(links, locals);
    }
  }
}

TEST(PairRounds, RailsComeFirstAmongNodes) {
  const auto ranks = nodes_of({4, 4, 4, 4});
  const auto rounds = pair_rounds(ranks);
  for (std::size_t number = 3; number < 6; ++number) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(ranks[static_cast<std::size_t>(rounds[number][rank])].local, ranks[rank].local);
    }
  }
}

TEST(PairRounds, NodesOfAnySize) {
  std::mt19937 engine(11);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int> sizes(1 + engine() % 5);
    for (int& size : sizes) size = 1 + static_cast<int>(engine() % 6);
    const auto ranks = nodes_of(sizes);
    expect_all_pairs(pair_rounds(ranks), ranks.size());
  }
}

}  // namespace
}  // namespace zeropp::fabric

#include "apps/fabric/rounds.hpp"

#include <utility>

namespace zeropp::fabric {

std::vector<Round> tournament(int players) {
  if (players < 2) return {};
  // The last of an even number stays where it is, the others go round; of an odd number, whoever
  // would meet the one that is not there sits out.
  const int seats = players + players % 2;
  std::vector<Round> rounds;
  for (int turn = 0; turn + 1 < seats; ++turn) {
    Round round(static_cast<std::size_t>(players), -1);
    const auto meet = [&](int a, int b) {
      if (a >= players || b >= players) return;
      round[static_cast<std::size_t>(a)] = b;
      round[static_cast<std::size_t>(b)] = a;
    };
    meet(seats - 1, turn);
    for (int step = 1; step < seats / 2; ++step) {
      meet((turn + step) % (seats - 1), (turn + seats - 1 - step) % (seats - 1));
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::vector<Round> pair_rounds(const std::vector<comm::LocalRank>& local_ranks) {
  const comm::Topology topology = comm::found_topology(local_ranks);
  if (!topology.uniform()) return tournament(topology.world_size);
  const int nodes = topology.node_count;
  const int locals = topology.ranks_per_node;
  const auto ranks = static_cast<std::size_t>(topology.world_size);
  std::vector<Round> rounds;
  for (const Round& intra : tournament(locals)) {
    Round round(ranks, -1);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const int own = static_cast<int>(rank);
      const int mate = intra[static_cast<std::size_t>(topology.local_of(own))];
      if (mate >= 0) round[rank] = topology.node_of(own) * locals + mate;
    }
    rounds.push_back(std::move(round));
  }
  const auto inter = tournament(nodes);
  for (int shift = 0; shift < locals; ++shift) {
    for (const Round& meeting : inter) {
      Round round(ranks, -1);
      for (int node = 0; node < nodes; ++node) {
        const int other = meeting[static_cast<std::size_t>(node)];
        if (other < node) continue;
        for (int local = 0; local < locals; ++local) {
          const int a = node * locals + local;
          const int b = other * locals + (local + shift) % locals;
          round[static_cast<std::size_t>(a)] = b;
          round[static_cast<std::size_t>(b)] = a;
        }
      }
      rounds.push_back(std::move(round));
    }
  }
  return rounds;
}

}  // namespace zeropp::fabric

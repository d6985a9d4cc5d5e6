// Topology of a job: N ranks = K nodes x G ranks per node, rank = node * G + local. Nodes come from
// the machine (ranks that share memory) or are declared (`node_size`): then the topology is
// *emulated* and says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zeropp::comm {

/// Kind of link that a message crosses.
enum class LinkClass : std::uint8_t { self, intra_node, inter_node };

/// Immutable. Ranks are those of the world communicator that `World` builds: grouped by node.
struct Topology {
  int world_size = 1;
  int node_count = 1;          ///< K
  int ranks_per_node = 1;      ///< G; 0 when nodes hold different numbers of ranks
  bool emulated = false;       ///< nodes were declared, not found
  bool virtual_ranks = false;  ///< ranks are threads of one process (lib/comm/virtual_ranks.hpp)

  [[nodiscard]] bool uniform() const { return ranks_per_node > 0; }
  [[nodiscard]] int node_of(int rank) const { return rank / ranks_per_node; }
  [[nodiscard]] int local_of(int rank) const { return rank % ranks_per_node; }
  /// "2 nodes x 2 ranks (emulated)", "(virtual)"
  [[nodiscard]] std::string describe() const;
};

/// Declared nodes: throws Error(environment) with the remedy when node_size does not divide
/// world_size.
Topology declared_topology(int world_size, int node_size);

/// Virtual ranks in nodes of `node_size`; 0: in one node. Throws as declared_topology().
Topology virtual_topology(int ranks, int node_size);

/// Whether `group` consecutive ranks, from any multiple of it on, are alike: part of a node that
/// divides it, or whole nodes that divide the job. False for nodes of unequal size.
bool fits_nodes(const Topology& topology, std::size_t group);
/// Topology of a group that fits_nodes(), as if it were the whole job.
Topology topology_of_group(const Topology& topology, int group);

/// Node of a rank, and its number there.
struct LocalRank {
  int node = 0;
  int local = 0;
};

/// Found nodes. `leaders`: for every rank, in rank order, a number that its node's ranks share and
/// no others; ranks of one node follow each other.
std::vector<LocalRank> local_ranks_of(std::span<const int> leaders);
/// Nodes of unequal size give ranks_per_node = 0.
Topology found_topology(std::span<const LocalRank> ranks);

}  // namespace zeropp::comm

// Shapes of groups: who takes part, as one rank sees it, without anything that moves bytes. They
// are values of the closed forms of collectives. A run's groups give theirs, a planner makes them
// from a topology.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "lib/comm/topology.hpp"

namespace zeropp::comm {

struct GroupShape {
  std::string name;  ///< Communicator::name()
  std::size_t size = 1;
  std::size_t node_peers = 0;        ///< other ranks of the group in the own node
  LinkClass next = LinkClass::self;  ///< to the next rank in rank order, around the end

  [[nodiscard]] std::size_t other_nodes_peers() const { return size - 1 - node_peers; }
  bool operator==(const GroupShape&) const = default;
};

/// Topology, and the shapes of world, node and rail. A group that does not exist has the default
/// shape.
struct LevelShape {
  Topology topology;
  GroupShape world;
  GroupShape node;
  GroupShape rail;
};

/// Shapes of the groups that Groups has.
struct JobShape : LevelShape {
  std::optional<GroupShape> secondary;
  std::optional<LevelShape> shards;
  std::optional<GroupShape> replicas;

  [[nodiscard]] const LevelShape& sharding() const { return shards ? *shards : *this; }
  /// Number of groups of ranks that share a copy of everything.
  [[nodiscard]] std::size_t shard_groups() const { return replicas ? replicas->size : 1; }
};

/// Shapes of the groups that World::make_groups() gives rank `rank` of a uniform topology: world,
/// node, rail, where `secondary_size` > 0 its hpZ group, and where `shard_size` > 0 its shard group
/// and replicas.
JobShape shape_of_job(const Topology& topology, int rank, std::size_t secondary_size,
                      std::size_t shard_size);

}  // namespace zeropp::comm

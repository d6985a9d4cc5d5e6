#include "lib/comm/topology.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace zeropp::comm {

namespace {

std::string counted(int count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string Topology::describe() const {
  std::string text =
      uniform()
          ? fmt::format("{} x {}", counted(node_count, "node"), counted(ranks_per_node, "rank"))
          : fmt::format("{} on {} of unequal size", counted(world_size, "rank"),
                        counted(node_count, "node"));
  if (emulated) text += virtual_ranks ? " (virtual)" : " (emulated)";
  return text;
}

Topology declared_topology(int world_size, int node_size) {
  if (node_size < 1 || world_size % node_size != 0) {
    throw Error(ExitCode::environment,
                fmt::format("{} cannot be laid out as nodes of {}: start a multiple of {} "
                            "ranks, or declare a node size that divides {}",
                            counted(world_size, "rank"), node_size, node_size, world_size));
  }
  return {world_size, world_size / node_size, node_size, true};
}

Topology virtual_topology(int ranks, int node_size) {
  Topology topology = declared_topology(ranks, node_size == 0 ? ranks : node_size);
  topology.virtual_ranks = true;
  return topology;
}

bool fits_nodes(const Topology& topology, std::size_t group) {
  if (!topology.uniform() || group == 0) return false;
  const auto node = static_cast<std::size_t>(topology.ranks_per_node);
  return node % group == 0 ||
         (group % node == 0 && static_cast<std::size_t>(topology.world_size) % group == 0);
}

Topology topology_of_group(const Topology& topology, int group) {
  const int local = std::min(group, topology.ranks_per_node);
  return {group, group / local, local, topology.emulated, topology.virtual_ranks};
}

std::vector<LocalRank> local_ranks_of(std::span<const int> leaders) {
  std::vector<LocalRank> ranks;
  for (std::size_t r = 0; r < leaders.size(); ++r) {
    if (r == 0) {
      ranks.push_back({0, 0});
    } else if (leaders[r] == leaders[r - 1]) {
      ranks.push_back({ranks.back().node, ranks.back().local + 1});
    } else {
      ranks.push_back({ranks.back().node + 1, 0});
    }
  }
  return ranks;
}

Topology found_topology(std::span<const LocalRank> ranks) {
  Topology topology{static_cast<int>(ranks.size()), ranks.back().node + 1, 0, false};
  std::vector<int> sizes(static_cast<std::size_t>(topology.node_count), 0);
  for (const LocalRank& rank : ranks) ++sizes[static_cast<std::size_t>(rank.node)];
  const bool equal = std::ranges::all_of(sizes, [&](int size) { return size == sizes.front(); });
  topology.ranks_per_node = equal ? sizes.front() : 0;
  return topology;
}

}  // namespace zeropp::comm

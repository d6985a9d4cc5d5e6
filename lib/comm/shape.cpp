#include "lib/comm/shape.hpp"

#include <algorithm>

namespace zeropp::comm {

namespace {

/// `size` ranks of the job from `first` on, every `stride`-th.
struct Members {
  int first;
  int stride;
  int size;
};

GroupShape shape_of_group(const char* name, const Topology& topology, int rank,
                          const Members& members) {
  const int first = members.first;
  const int stride = members.stride;
  const int size = members.size;
  const int node = topology.node_of(rank);
  const int node_begin = node * topology.ranks_per_node;
  const int node_end = node_begin + topology.ranks_per_node;
  const auto members_before = [&](int other) { return (other - first + stride - 1) / stride; };
  const int begin = members_before(std::max(node_begin, first));
  const int end = std::min(members_before(node_end), size);
  const int next = first + ((rank - first) / stride + 1) % size * stride;
  GroupShape shape{.name = name,
                   .size = static_cast<std::size_t>(size),
                   .node_peers = static_cast<std::size_t>(end - begin - 1)};
  if (next != rank) {
    shape.next = topology.node_of(next) == node ? LinkClass::intra_node : LinkClass::inter_node;
  }
  return shape;
}

}  // namespace

JobShape shape_of_job(const Topology& topology, int rank, std::size_t secondary_size,
                      std::size_t shard_size) {
  const auto group = [&](const char* name, const Members& members) {
    return shape_of_group(name, topology, rank, members);
  };
  const int local = topology.ranks_per_node;
  JobShape job;
  job.topology = topology;
  job.world = group("world", {0, 1, topology.world_size});
  job.node = group("node", {rank / local * local, 1, local});
  job.rail = group("rail", {rank % local, local, topology.node_count});
  if (secondary_size > 0) {
    const int size = static_cast<int>(secondary_size);
    job.secondary = group("secondary", {rank / size * size, 1, size});
  }
  if (shard_size > 0) {
    const int size = static_cast<int>(shard_size);
    const int first = rank / size * size;
    const Topology inside = topology_of_group(topology, size);
    const int part = inside.ranks_per_node;
    job.shards = {.topology = inside,
                  .world = group("shard", {first, 1, size}),
                  .node = group("shard node", {rank / part * part, 1, part}),
                  .rail = group("shard rail", {first + rank % part, part, inside.node_count})};
    job.replicas = group("replica", {rank % size, size, topology.world_size / size});
  }
  return job;
}

}  // namespace zeropp::comm

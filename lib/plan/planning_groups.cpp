#include "lib/plan/planning_groups.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>
#include <string>

#include "lib/base/error.hpp"

namespace zeropp::plan {

namespace {

/// Ranks `first`, `first + stride`, ... of the job.
class PlanningCommunicator final : public comm::Communicator {
 public:
  PlanningCommunicator(const char* name, const comm::Topology& topology, int rank, int first,
                       int stride, int size)
      : name_(name),
        node_begin_(topology.node_of(rank) * topology.ranks_per_node),
        node_end_(node_begin_ + topology.ranks_per_node),
        own_(rank),
        first_(first),
        stride_(stride),
        size_(size) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] int rank() const override { return (own_ - first_) / stride_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] comm::LinkClass link_to(int peer) const override {
    const int other = first_ + peer * stride_;
    if (other == own_) return comm::LinkClass::self;
    return other >= node_begin_ && other < node_end_ ? comm::LinkClass::intra_node
                                                     : comm::LinkClass::inter_node;
  }

  std::unique_ptr<comm::Work> exchange(std::span<const comm::Send>, std::span<const comm::Receive>,
                                       StreamHandle, comm::Bytes&) override {
    refuse();
  }
  std::unique_ptr<comm::Work> native_all_gather(ConstView, View, StreamHandle) override {
    refuse();
  }
  std::unique_ptr<comm::Work> native_reduce_scatter(ConstView, View, StreamHandle) override {
    refuse();
  }
  std::unique_ptr<comm::Work> native_all_reduce(ConstView, View, StreamHandle) override {
    refuse();
  }
  std::unique_ptr<comm::Work> native_broadcast(ConstView, View, int, StreamHandle) override {
    refuse();
  }
  std::unique_ptr<comm::Work> native_all_to_all(ConstView, View, StreamHandle) override {
    refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw std::logic_error("group '" + name_ + "' is one of a plan: it moves nothing");
  }

  std::string name_;
  int node_begin_;  ///< ranks of the own node
  int node_end_;
  int own_;
  int first_;
  int stride_;
  int size_;
};

}  // namespace

comm::Topology planned_topology(std::size_t nodes, std::size_t ranks_per_node) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (nodes == 0 || ranks_per_node == 0 || nodes > kMost / ranks_per_node) {
    throw Error(ExitCode::usage,
                fmt::format("a job of {} nodes with {} ranks each cannot be planned: give 1 of "
                            "each at least, and at most {} ranks",
                            nodes, ranks_per_node, kMost));
  }
  return {.world_size = static_cast<int>(nodes * ranks_per_node),
          .node_count = static_cast<int>(nodes),
          .ranks_per_node = static_cast<int>(ranks_per_node),
          .emulated = false};
}

comm::Groups planning_groups(const comm::Topology& topology, int rank, std::size_t secondary_size,
                             std::size_t shard_size) {
  const int local = topology.ranks_per_node;
  const auto make = [&](const char* name, int first, int stride, int size) {
    return std::make_unique<PlanningCommunicator>(name, topology, rank, first, stride, size);
  };
  comm::Groups groups;
  groups.topology = topology;
  groups.memory = MemoryKind::none;
  groups.world = make("world", 0, 1, topology.world_size);
  groups.node = make("node", rank / local * local, 1, local);
  groups.rail = make("rail", rank % local, local, topology.node_count);
  if (secondary_size > 1) {
    const int size = static_cast<int>(secondary_size);
    groups.secondary = make("secondary", rank / size * size, 1, size);
  }
  if (shard_size > 0) {
    const int size = static_cast<int>(shard_size);
    const comm::Topology inside = comm::topology_of_group(topology, size);
    const int first = rank / size * size;
    const int part = inside.ranks_per_node;
    groups.shards = std::make_unique<comm::Groups>();
    groups.shards->topology = inside;
    groups.shards->memory = groups.memory;
    groups.shards->world = make("shard", first, 1, size);
    groups.shards->node = make("shard node", rank / part * part, 1, part);
    groups.shards->rail = make("shard rail", first + rank % part, part, inside.node_count);
    groups.replicas = make("replica", rank % size, size, topology.world_size / size);
  }
  return groups;
}

}  // namespace zeropp::plan

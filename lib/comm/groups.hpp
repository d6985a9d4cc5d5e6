// The groups of ranks that collectives run on, as one rank holds them, and what they are made for.
// Groups own their communicators; World::make_groups() makes them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/comm/control.hpp"
#include "lib/comm/options.hpp"
#include "lib/comm/shape.hpp"
#include "lib/comm/topology.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"

namespace zeropp::comm {

/// The groups that collectives run on. `node`: ranks of one node; `rail`: equal local ranks of all
/// nodes; `secondary`: `secondary_size` consecutive ranks (hpZ); `shards`: the own `shard_size`
/// consecutive ranks as a world of their own, with its node and rail; `replicas`: the ranks with
/// the same number in all of these. Null where the topology does not allow the group or nobody
/// asked for it.
struct Groups {
  Topology topology;
  MemoryKind memory = MemoryKind::host;  ///< that the groups move
  /// Work::wait() enqueues a wait on the stream and returns (NCCL); else the host waits.
  bool waits_on_stream = false;
  bool copy_engines = false;  ///< large equal pieces in registered memory take no kernels
  std::unique_ptr<Communicator> world;
  std::unique_ptr<Communicator> node;
  std::unique_ptr<Communicator> rail;
  std::unique_ptr<Communicator> secondary;
  std::unique_ptr<Groups> shards;
  std::unique_ptr<Communicator> replicas;

  /// Groups that weights and gradients are sharded in: those of `shards` where there are any, else
  /// these.
  [[nodiscard]] Groups& sharding() { return shards ? *shards : *this; }
  [[nodiscard]] const Groups& sharding() const { return shards ? *shards : *this; }

  /// Shapes of the groups, without what moves bytes: all of them, and those of these ranks alone.
  [[nodiscard]] JobShape shape() const;
  [[nodiscard]] LevelShape levels() const;
  /// Memory that collectives of these groups may borrow, registrable where they have use for it.
  [[nodiscard]] Buffer make_memory(std::size_t bytes) const;
  /// Registers `buffer` with all of these groups; keep the result until the buffer is freed.
  /// Collective. `control`: of the ranks of all groups, which agree after each group; where one
  /// cannot register it, all throw AgreedError.
  [[nodiscard]] std::vector<std::unique_ptr<RegisteredMemory>> register_memory(
      const Buffer& buffer, Control& control) const;
};

struct GroupOptions {
  int secondary_size = 0;  ///< ranks of an hpZ group; 0: no such group
  int shard_size = 0;      ///< ranks of a shard group, which fit the nodes; 0: no such groups
  bool levels = true;      ///< node and rail, which hierarchical algorithms need
  Device device = Device::host();  ///< whose memory the groups move
  Transport transport = Transport::mpi;
  /// Number of NCCL communicators that carry what a rail, or the replicas, send
  /// (lib/comm/lanes.hpp); at least 1. Where each node has one rank, the ranks that share weights
  /// are a rail.
  std::size_t rail_lanes = 1;
  /// NCCL only: equal pieces travel inside nodes by copy engines, where memory is registered.
  bool copy_engines = false;
  /// Largest message of MPI; longer ones are split (tests lower it).
  std::size_t max_message_bytes = std::size_t{1} << 30U;
};

}  // namespace zeropp::comm

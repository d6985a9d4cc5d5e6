// The running set of ranks: owns MPI's initialisation, the topology, the control plane and the
// groups. Ranks are renumbered so that rank = node * G + local, whatever the launcher's placement
// was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/poll.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/comm/options.hpp"
#include "lib/comm/shape.hpp"
#include "lib/comm/topology.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"

namespace zeropp::comm {

class Watchdog;

/// Small host-side traffic of class `control` (norms, losses, agreement): always MPI, blocking,
/// outside the counted data volumes. Every rank calls every function, in the same order.
class Control {
 public:
  virtual ~Control() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void barrier() = 0;
  /// Element-wise over ranks, in place. Doubles are added in rank order: the same bits on every
  /// rank and in every run. A maximum keeps NaN.
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<std::uint64_t> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;
  /// Every rank's `part`, in rank order (equal lengths).
  [[nodiscard]] virtual std::vector<double> all_gather(std::span<const double> part) = 0;
  /// Every rank's bytes on rank 0 (lengths may differ); empty elsewhere.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& part) = 0;
  [[nodiscard]] virtual std::string broadcast(const std::string& from_rank_0) = 0;

  /// Agrees on what each rank found at a boundary. When any rank failed, all throw AgreedError with
  /// the message of the lowest failing rank; otherwise returns.
  void agree(const std::optional<Error>& status);
};

/// Thrown by agree() on every rank; only rank `reporter` prints it.
class AgreedError : public Error {
 public:
  AgreedError(ExitCode code, const std::string& message, int reporter)
      : Error(code, message), reporter_(reporter) {}
  [[nodiscard]] int reporter() const { return reporter_; }

 private:
  int reporter_;
};

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
  /// With copy engines only: reductions encode into the registered memory of other ranks.
  bool peer_stores = false;
  /// Largest message of MPI; longer ones are split (tests lower it).
  std::size_t max_message_bytes = std::size_t{1} << 30U;
};

class World {
 public:
  /// Initialises MPI (funneled), also in a process that no launcher started, and starts the
  /// watchdog (lib/comm/watchdog.hpp); finalises both when
  /// destroyed, except by an exception that may be this rank's alone (MPI_Finalize would wait for
  /// the others): make it outside of the try block. One such World a process; groups do not outlive
  /// it.
  World(int& argc, char**& argv);
  ~World();
  /// The ranks of control() with one `color` as a world of their own, in their order; its topology
  /// is to be set. Collective. It must not outlive this world, and does not end MPI.
  [[nodiscard]] std::unique_ptr<World> split(int color) const;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Rank and size as launched; valid before the topology is known.
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// Number of ranks that really share this machine, whatever nodes are declared.
  [[nodiscard]] int host_ranks() const;
  [[nodiscard]] Control& control() const;

  /// Nodes found on the machine (node_size 0) or declared. Renumbers the ranks, of control() as
  /// well; rank 0 stays rank 0. Every rank calls it, before make_groups(). May be called again:
  /// groups made before keep their topology. Throws Error(environment) with the remedy when
  /// node_size does not divide the world size.
  const Topology& set_topology(int node_size);
  [[nodiscard]] const Topology& topology() const;
  /// Local ranks of all ranks, in rank order, on nodes of unequal size as well. Valid after
  /// set_topology().
  [[nodiscard]] const std::vector<LocalRank>& local_ranks() const;

  /// Collective over all ranks. Throws Error(usage) for sizes that do not fit and for NCCL on host
  /// memory, Error(environment) where the transport cannot be had. NCCL's environment is set here,
  /// before its first call: NVLS off unless the user chose, and, for declared nodes, routes that
  /// keep to them. NCCL reads its environment once a process: groups made later for other nodes
  /// count their bytes by the new nodes, but travel on the routes of the first.
  [[nodiscard]] Groups make_groups(const GroupOptions& options = {});

  /// The watchdog's: operations that wait longer than `deadline` end the job (0: no limit), and the
  /// flight records go to `folder`.
  void watch(Seconds deadline, const std::filesystem::path& folder);

  /// Ends every rank of the job with `code` after this rank has printed its line. Does not return.
  [[noreturn]] static void abort(ExitCode code);

  /// "Open MPI v4.1.4, ..." (first line of the library's version string).
  static std::string library_version();

 private:
  struct State;
  class GroupMaker;
  explicit World(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  std::unique_ptr<Watchdog> watchdog_;  ///< of the whole job's world
};

}  // namespace zeropp::comm

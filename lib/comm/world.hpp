// The running set of ranks: owns MPI's initialisation, the topology and the control plane, and
// makes groups. Ranks are renumbered so that rank = node * G + local, whatever the launcher's
// placement was.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/poll.hpp"
#include "lib/comm/control.hpp"
#include "lib/comm/groups.hpp"
#include "lib/comm/rank_set.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::comm {

class Watchdog;

class World {
 public:
  /// Sets the environment for CUDA (program_environment.hpp), initialises MPI (funneled), also in a
  /// process that no launcher started, and starts the watchdog (lib/comm/watchdog.hpp); finalises
  /// both when destroyed, except by an exception that may be this rank's alone (MPI_Finalize would
  /// wait for the others): make it outside of the try block. One such World a process; groups do
  /// not outlive it.
  World(int& argc, char**& argv);
  /// A world of these ranks, in a process that has one made by the constructor above. It does not
  /// end MPI.
  explicit World(std::unique_ptr<RankSet> ranks);
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

  /// The ranks with this rank's color, as a group. `colors`: by rank. Collective over all ranks,
  /// and otherwise as make_groups().
  [[nodiscard]] std::unique_ptr<Communicator> make_group(const char* name,
                                                         const std::vector<int>& colors,
                                                         const GroupOptions& options);

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
  std::unique_ptr<State> state_;
  std::unique_ptr<Watchdog> watchdog_;  ///< of the whole job's world
};

}  // namespace zeropp::comm

#include "lib/comm/world.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/lifeline_connect.hpp"
#include "lib/comm/mpi_check.hpp"
#include "lib/comm/mpi_rank_set.hpp"
#include "lib/comm/program_environment.hpp"
#include "lib/comm/watchdog.hpp"

namespace zeropp::comm {

namespace {

/// Watchdog of the one World that has it, for abort().
Watchdog* of_process = nullptr;

}  // namespace

struct World::State {
  /// `whole`: of the job, which ends MPI.
  State(std::unique_ptr<RankSet> ranks, bool whole) : set(std::move(ranks)), ends_mpi(whole) {}

  std::unique_ptr<RankSet> set;
  bool ends_mpi;
  GroupLog log{"job"};                 ///< of what makes and ends groups
  std::vector<LocalRank> local_ranks;  ///< by renumbered rank; empty until set_topology
  Topology topology;
  int exceptions = std::uncaught_exceptions();
};

World::World(int& argc, char**& argv) {
  set_cuda_environment();
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  // Communicators made from these inherit the handler.
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  if (provided < MPI_THREAD_FUNNELED) {
    throw Error(ExitCode::environment,
                "this MPI library offers no threads beside it: build one with thread support");
  }
  auto job = MpiRankSet::of_job();
  std::vector<Lifeline> lines = connect_lifelines(job->launched());
  state_ = std::make_unique<State>(std::move(job), true);
  if (size() > 1 && lines.empty() && rank() == 0) {
    log::warn(
        "ranks have no TCP connections to rank 0: where one dies, the others end by --timeout or "
        "by the launcher only");
  }
  watchdog_ = std::make_unique<Watchdog>(
      Watchdog::Setup{.rank = rank(), .ranks = size(), .lines = std::move(lines)});
  of_process = watchdog_.get();
}

World::World(std::unique_ptr<RankSet> ranks)
    : state_(std::make_unique<State>(std::move(ranks), false)) {}

std::unique_ptr<World> World::split(int color) const {
  const Waiting waiting(state_->log, "split");
  return std::make_unique<World>(state_->set->split(color));
}

World::~World() {
  const bool unwinding = std::uncaught_exceptions() > state_->exceptions;
  const bool ends_mpi = state_->ends_mpi;
  GroupLog log = state_->log;
  state_.reset();
  if (!ends_mpi) return;
  // MPI_Finalize waits for every rank: an exception that passes through here may be this rank's
  // alone. Leaving without it lets the launcher end the others.
  if (unwinding) {
    watchdog_->failing(ExitCode::environment);
  } else {
    const Waiting waiting(log, "end of MPI");
    if (watchdog_) watchdog_->leave();
    MPI_Finalize();
  }
  of_process = nullptr;
}

int World::rank() const { return state_->set->launched_rank(); }
int World::size() const { return state_->set->size(); }
int World::host_ranks() const { return state_->set->host().ranks; }
Control& World::control() const { return state_->set->control(); }

const Topology& World::set_topology(int node_size) {
  State& state = *state_;
  const Waiting waiting(state.log, "topology");
  const bool declared = node_size != 0;
  Topology topology;
  if (state.set->host().one_process) {
    topology = virtual_topology(size(), node_size);
  } else if (declared) {
    topology = declared_topology(size(), node_size);
  }
  const int leader = declared ? rank() / node_size * node_size : state.set->host().leader;
  std::vector<int> leaders = state.set->all_gather(leader);
  // Ranks go by node, those of one node in launched order (equal keys keep it): rank 0 stays rank
  // 0.
  std::ranges::sort(leaders);
  state.local_ranks = local_ranks_of(leaders);
  state.topology = topology.emulated ? topology : found_topology(state.local_ranks);
  state.set->renumber(leader);
  return state.topology;
}

const Topology& World::topology() const {
  if (state_->local_ranks.empty())
    throw std::logic_error("World::topology() before set_topology()");
  return state_->topology;
}

const std::vector<LocalRank>& World::local_ranks() const {
  if (state_->local_ranks.empty())
    throw std::logic_error("World::local_ranks() before set_topology()");
  return state_->local_ranks;
}

namespace {

/// Throws Error(usage) for groups of ranks that cannot be.
void check_options(const GroupOptions& options, const Topology& layout, int ranks) {
  const int secondary_size = options.secondary_size;
  if (secondary_size < 0 || (secondary_size > 0 && ranks % secondary_size != 0)) {
    throw Error(ExitCode::usage,
                fmt::format("{} ranks cannot be cut into secondary partitions of {}: choose a "
                            "partition size that divides {}",
                            ranks, secondary_size, ranks));
  }
  if (options.shard_size < 0 ||
      (options.shard_size > 0 &&
       !fits_nodes(layout, static_cast<std::size_t>(options.shard_size)))) {
    throw Error(ExitCode::usage,
                fmt::format("shard groups of {} ranks do not fit {}: choose a size that divides a "
                            "node, or whole nodes",
                            options.shard_size, layout.describe()));
  }
  if (options.transport == Transport::nccl && options.device.backend == Backend::host) {
    throw Error(ExitCode::usage,
                "NCCL moves the memory of GPUs only: choose transport mpi for the "
                "host back end");
  }
  if (options.transport != Transport::nccl && options.copy_engines) {
    throw Error(ExitCode::usage,
                "copy engines serve NCCL only: leave them out, or choose transport nccl");
  }
  if (options.max_message_bytes == 0) {
    throw Error(ExitCode::usage, "the largest message cannot be 0 bytes: give at least 1");
  }
  if (options.rail_lanes == 0) {
    throw Error(ExitCode::usage, "a rail cannot have 0 lanes: give at least 1");
  }
}

}  // namespace

/// Makes groups of the ranks of a world, one after the other, on all ranks in the same order.
class World::GroupMaker {
 public:
  GroupMaker(const State& state, const GroupOptions& options)
      : state_(state), options_(options), own_(state.set->control().rank()) {
    if (options.transport != Transport::nccl) return;
    set_nccl_environment({local_rank(own_).node, state_.topology.emulated,
                          state_.set->host().ranks == state_.set->size()});
  }

  /// World, node, rail and secondary partition.
  [[nodiscard]] Groups of_job() const {
    const Topology& layout = state_.topology;
    Groups groups = without_ranks(layout);
    groups.world = make(
        "world", [](int) { return 0; }, options_.shard_size > 0 ? 1 : lanes_of(layout));
    if (options_.levels) {
      groups.node = make("node", [&](int rank) { return local_rank(rank).node; });
    }
    if (options_.levels && layout.uniform()) {
      groups.rail = make(
          "rail", [&](int rank) { return local_rank(rank).local; }, options_.rail_lanes);
    }
    if (options_.secondary_size > 0) {
      groups.secondary =
          make("secondary", [&](int rank) { return rank / options_.secondary_size; });
    }
    return groups;
  }

  /// The own shard group with its levels, and the ranks that hold the same shards.
  void add_shards(Groups& groups) const {
    const int size = options_.shard_size;
    const auto group = [&](int rank) { return rank / size; };
    const Topology inside = topology_of_group(state_.topology, size);
    groups.shards = std::make_unique<Groups>(without_ranks(inside));
    groups.shards->world = make("shard", group, lanes_of(inside));
    if (options_.levels) {
      groups.shards->node =
          make("shard node", [&](int rank) { return rank / inside.ranks_per_node; });
      groups.shards->rail = make(
          "shard rail",
          [&](int rank) {
            return group(rank) * inside.ranks_per_node + rank % inside.ranks_per_node;
          },
          options_.rail_lanes);
    }
    groups.replicas = make(
        "replica", [&](int rank) { return rank % size; }, options_.rail_lanes);
  }

  /// The group of all ranks with the color of this one. Collective over the world.
  template <class ColorOf>
  [[nodiscard]] std::unique_ptr<Communicator> make(const char* name, ColorOf color_of,
                                                   std::size_t lanes = 1) const {
    std::vector<LinkClass> links;
    for (int rank = 0; rank < state_.set->size(); ++rank) {
      if (color_of(rank) != color_of(own_)) continue;
      links.push_back(rank == own_                                     ? LinkClass::self
                      : local_rank(rank).node == local_rank(own_).node ? LinkClass::intra_node
                                                                       : LinkClass::inter_node);
    }
    return state_.set->make_communicator(name, color_of(own_), std::move(links), options_, lanes);
  }

 private:
  [[nodiscard]] Groups without_ranks(const Topology& topology) const {
    Groups groups;
    groups.topology = topology;
    groups.memory = options_.device.memory;
    groups.waits_on_stream = options_.transport == Transport::nccl;
    groups.copy_engines = options_.copy_engines;
    return groups;
  }

  [[nodiscard]] const LocalRank& local_rank(int rank) const {
    return state_.local_ranks[static_cast<std::size_t>(rank)];
  }

  /// A world whose nodes have one rank each is a rail, and so is its shard group.
  [[nodiscard]] std::size_t lanes_of(const Topology& ranks) const {
    return ranks.node_count > 1 && ranks.ranks_per_node == 1 ? options_.rail_lanes : 1;
  }

  const State& state_;
  const GroupOptions& options_;
  int own_;
};

Groups World::make_groups(const GroupOptions& options) {
  const Waiting waiting(state_->log, "creation of groups");
  check_options(options, topology(), size());
  const GroupMaker maker(*state_, options);
  Groups groups = maker.of_job();
  if (options.shard_size > 0) maker.add_shards(groups);
  return groups;
}

std::unique_ptr<Communicator> World::make_group(const char* name, const std::vector<int>& colors,
                                                const GroupOptions& options) {
  const Waiting waiting(state_->log, "creation of a group");
  check_options(options, topology(), size());
  return GroupMaker(*state_, options).make(name, [&](int rank) {
    return colors[static_cast<std::size_t>(rank)];
  });
}

void World::watch(Seconds deadline, const std::filesystem::path& folder) {
  Watchdog::set_deadline(deadline);
  if (of_process != nullptr) of_process->set_folder(folder);
}

void World::abort(ExitCode code) {
  if (of_process != nullptr) of_process->failing(code);
  int running = 0;
  int finalised = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&finalised);
  if (running != 0 && finalised == 0) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

std::string World::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length));
  // Open MPI counts the zero at the end as well.
  const std::string_view all(text.data(), static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find_first_of(std::string_view("\n\0", 2))));
}

}  // namespace zeropp::comm

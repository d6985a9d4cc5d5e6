#include "lib/config/back_end.hpp"

#include <limits>

#include "lib/config/refuse.hpp"

namespace zeropp::config {

Option backend_option(std::optional<Backend>& field, const std::string& scope) {
  return {
      .path = scope + "backend",
      .flag = "--backend",
      .field = &field,
      .help =
          "Back end that computes; auto: cuda where every rank has a GPU of its own, else host"};
}

Option transport_option(std::optional<comm::Transport>& field, const std::string& scope) {
  return {.path = scope + "transport",
          .flag = "--transport",
          .field = &field,
          .help =
              "Library that moves bytes; auto: nccl with the back end cuda, else mpi. With cuda, "
              "mpi goes through host memory and lets ranks share a GPU. Virtual ranks copy in "
              "memory"};
}

Option copy_engines_option(std::optional<comm::CopyEngines>& field, const std::string& scope) {
  return {.path = scope + "copy_engines",
          .flag = "--copy-engines",
          .field = &field,
          .help =
              "Send messages of one size inside a node by the GPUs' copy engines, which leave the "
              "multiprocessors to arithmetic; direct, 1-hop, and inside nodes two-level and 2-hop "
              "send such; auto: where NCCL can"};
}

Option rail_lanes_option(std::size_t& field, const std::string& scope) {
  return {.path = scope + "rail_lanes",
          .flag = "--rail-lanes",
          .field = &field,
          .help =
              "NCCL communicators that share what two-level and 2-hop send between nodes, or what "
              "nodes of one rank send themselves, hpZ's gathers apart; each has a thread of its "
              "own for its sockets; 0: over sockets 4, or 8 with nodes of one rank, else 1",
          .range = between(0, 16)};
}

Option node_size_option(std::size_t& field, const std::string& scope) {
  return {.path = scope + "node_size",
          .flag = "--node-size",
          .field = &field,
          .help = "Declare nodes of this many ranks (results are marked emulated); 0: as found",
          .unit = "ranks",
          .range = between(0, std::numeric_limits<int>::max())};
}

Option virtual_ranks_option(std::size_t& field, const std::string& scope) {
  return {.path = scope + "virtual_ranks",
          .flag = "--virtual-ranks",
          .field = &field,
          .help =
              "Train in this one process as this many ranks would, one after the other, on one "
              "GPU: the same parameters and counted bytes, but times of no machine; 0: the ranks "
              "that were started",
          .unit = "ranks",
          .range = between(0, kMostVirtualRanks)};
}

Option gpu_sampling_option(double& field, const std::optional<Backend>& backend,
                           const std::string& scope) {
  return {.path = scope + "gpu_sampling",
          .flag = "--gpu-sampling",
          .field = &field,
          .help =
              "Time between readings of clocks, power, temperature and throttle reasons of each "
              "rank's GPU, for the trace; 0: none",
          .unit = "seconds",
          .range = between(0, 3600),
          .in_effect = [&backend] { return backend != Backend::host; },
          .effect_needs = scope.empty() ? "--backend cuda" : scope + "backend cuda"};
}

using comm::Transport;

void choose_back_end(std::optional<Backend>& backend, std::optional<Transport>& transport,
                     const Machine& machine, const char* transport_option, bool runs_on_gpus) {
  if (!backend) {
    const bool gpus = machine.virtual_ranks ? machine.gpus : machine.own_gpus;
    backend = gpus && runs_on_gpus && transport != Transport::mpi ? Backend::cuda : Backend::host;
  }
  const bool cuda = backend == Backend::cuda;
  if (transport && machine.virtual_ranks != (transport == Transport::memory)) {
    refuse("{} {}: {}", transport_option, enum_name(*transport),
           machine.virtual_ranks
               ? "--virtual-ranks move data in memory only: leave it out"
               : "it is of virtual ranks: give zpp_train --virtual-ranks, or leave it out");
  }
  if (machine.virtual_ranks) transport = Transport::memory;
  if (!cuda && transport == Transport::nccl) {
    refuse("{} nccl moves GPU memory only: use --backend cuda{}{}, or --transport mpi",
           transport_option, machine.own_gpus ? "" : ". But: ", machine.gpu_problem);
  }
  if (!transport) transport = cuda ? Transport::nccl : Transport::mpi;
  if (cuda && !(transport == Transport::nccl ? machine.own_gpus : machine.gpus)) {
    throw Error(ExitCode::environment, machine.gpu_problem);
  }
}

void choose_rail_lanes(std::size_t& lanes, Transport transport, const Machine& machine) {
  const bool rails =
      transport == Transport::nccl && machine.node_count > 1 && machine.ranks_per_node > 0;
  if (lanes > 1 && !rails) {
    refuse(
        "--rail-lanes {} would have no effect: only NCCL, on several nodes of equal size, cuts "
        "what rails send; leave it out",
        lanes);
  }
  if (lanes == 0) lanes = rails ? typical_rail_lanes(machine) : 1;
}

}  // namespace zeropp::config

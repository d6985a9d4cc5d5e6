#include "lib/config/back_end_choice.hpp"

#include "lib/config/refuse.hpp"

namespace zeropp::config {

using comm::Transport;

void choose_back_end(std::optional<Backend>& backend, std::optional<Transport>& transport,
                     const Machine& machine, const char* transport_option, bool runs_on_gpus) {
  if (!backend) {
    backend = machine.own_gpus && runs_on_gpus && transport != Transport::mpi ? Backend::cuda
                                                                              : Backend::host;
  }
  const bool cuda = backend == Backend::cuda;
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

#include "lib/config/back_end_choice.hpp"

#include "lib/config/refuse.hpp"

namespace zeropp::config {

void choose_back_end(std::string& backend, std::string& transport, const Machine& machine,
                     const char* transport_option, bool runs_on_gpus) {
  if (backend == "auto") {
    backend = machine.own_gpus && runs_on_gpus && transport != "mpi" ? "cuda" : "host";
  }
  const bool cuda = backend == "cuda";
  if (!cuda && transport == "nccl") {
    refuse("{} nccl moves GPU memory only: use --backend cuda{}{}, or --transport mpi",
           transport_option, machine.own_gpus ? "" : ". But: ", machine.gpu_problem);
  }
  if (transport == "auto") transport = cuda ? "nccl" : "mpi";
  if (cuda && !(transport == "nccl" ? machine.own_gpus : machine.gpus)) {
    throw Error(ExitCode::environment, machine.gpu_problem);
  }
}

void choose_rail_lanes(std::size_t& lanes, const std::string& transport, const Machine& machine) {
  const bool rails = transport == "nccl" && machine.node_count > 1 && machine.ranks_per_node > 0;
  if (lanes > 1 && !rails) {
    refuse(
        "--rail-lanes {} would have no effect: only NCCL, on several nodes of equal size, cuts "
        "what rails send; leave it out",
        lanes);
  }
  if (lanes == 0) lanes = rails ? typical_rail_lanes(machine) : 1;
}

}  // namespace zeropp::config

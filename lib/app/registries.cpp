#include "lib/app/registries.hpp"

#include "lib/collective/collective.hpp"
#include "lib/data/token_source.hpp"
#include "lib/model/registry.hpp"

namespace zeropp::app {

config::Machine machine_of(const comm::Topology& topology, const GpuPlacement& gpus) {
  config::Machine machine{.world_size = topology.world_size,
                          .node_count = topology.node_count,
                          .ranks_per_node = topology.ranks_per_node,
                          .virtual_ranks = topology.virtual_ranks,
                          .gpus = gpus.every_rank,
                          .own_gpus = gpus.own,
                          .rdma = gpus.rdma,
                          .copy_engines = gpus.copy_engines,
                          .gpu_problem = gpus.problem,
                          .all_gather = {},
                          .reduce_scatter = {},
                          .check_model = model::validate,
                          .check_data = data::validate};
  for (const auto* entry : collective::all_gather_algorithms()) {
    machine.all_gather.push_back({std::string(entry->name), entry->traits});
  }
  for (const auto* entry : collective::reduce_scatter_algorithms()) {
    machine.reduce_scatter.push_back({std::string(entry->name), entry->traits});
  }
  return machine;
}

}  // namespace zeropp::app

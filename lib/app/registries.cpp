#include "lib/app/registries.hpp"

#include "lib/collective/collective.hpp"
#include "lib/model/registry.hpp"

namespace zeropp::app {

config::Machine machine_of(const comm::Topology& topology) {
  config::Machine machine{.world_size = topology.world_size,
                          .node_count = topology.node_count,
                          .ranks_per_node = topology.ranks_per_node,
                          .all_gather = {},
                          .reduce_scatter = {},
                          .models = {}};
  for (const auto* entry : collective::all_gather_algorithms()) {
    machine.all_gather.push_back(
        {std::string(entry->name), entry->hierarchical, entry->any_codec, true});
  }
  for (const auto* entry : collective::reduce_scatter_algorithms()) {
    machine.reduce_scatter.push_back(
        {std::string(entry->name), entry->hierarchical, entry->any_codec, entry->deterministic});
  }
  for (const auto name : model::model_names()) machine.models.emplace_back(name);
  return machine;
}

}  // namespace zeropp::app

// Source of a command's cluster: a file, or the data sheet of a GPU and the links that were bought
// with it.
#pragma once

#include <string>
#include <vector>

#include "lib/config/option.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan_app {

struct ClusterSource {
  std::string file;
  std::string gpu;             ///< of lib/plan/sold_gpus.hpp
  double node_gbit = 0;        ///< that leave a node, as sold
  std::size_t node_links = 1;  ///< that they are spread over

  /// Whether there is a cluster.
  [[nodiscard]] bool is_named() const { return !file.empty() || !gpu.empty(); }
};

/// --cluster, --gpu, --node-gbit, --node-links, bound to `source`, which outlives the table.
std::vector<config::Option> options(ClusterSource& source);

/// Refuses a source whose flags are of both kinds, or one of which is missing: nodes of a sold GPU
/// need links, unless `given` has plan.nodes 1. Throws Error(usage).
void check(const ClusterSource& source, const std::vector<config::Option>& given);

/// Reads a source that is named. `gpus_per_node` counts where GPUs are sold ones. Throws Error.
plan::Cluster read(const ClusterSource& source, std::size_t gpus_per_node);

}  // namespace zeropp::plan_app

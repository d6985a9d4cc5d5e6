// GPUs as they are sold, and a cluster of them before anyone has measured it: rates of data sheets,
// each times the share of it that the GPUs of inputs/clusters/h200-dgx.json were measured to reach.
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/plan/cluster.hpp"

namespace zeropp::plan {

/// One data sheet. A rate of links is of one direction, half of what sheets add up.
struct SoldGpu {
  std::string_view name;        ///< in lower case: what --gpu takes
  std::string_view sheet;       ///< the product
  double tflops;                ///< TFLOP/s, 16 bit, dense
  double memory_gb;             ///< as programs see it, GiB for GB but for what ECC takes
  double memory_gb_per_s;       ///< of its memory
  double node_gb_per_s;         ///< of its links to the other GPUs of the node
  double host_gb_per_s;         ///< of its link to the host
  double host_memory_gb_per_s;  ///< of the two-socket host that it is usually sold in
  bool compared = false;        ///< steps planned with these rates stand beside measured ones
};

/// By name.
const std::vector<SoldGpu>& sold_gpus();
std::vector<std::string> sold_gpu_names();

/// Nodes that are bought: their GPUs, and the links that leave each node.
struct SoldNodes {
  std::string gpu;  ///< a name of sold_gpus()
  std::size_t gpus_per_node = 8;
  double node_gbit = 0;        ///< Gbit/s that leave a node, of all its links, one direction; 0:
                               ///< there is one node
  std::size_t node_links = 1;  ///< that they are spread over
};

/// Two of these nodes, or one where node_gbit is 0. Its source says that nothing was measured.
/// Throws Error(usage) for a GPU that is none of the table.
Cluster sold_cluster(const SoldNodes& sold);

}  // namespace zeropp::plan

#include "apps/plan/cluster_job.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/plan/break_even.hpp"

namespace zeropp::plan {

std::vector<config::Option> options(ClusterJob& job) {
  std::vector<config::Option> table = options(job.job);
  table.push_back({.path = "plan.cluster",
                   .flag = "--cluster",
                   .field = &job.file,
                   .help = "JSON file that describes the cluster, as inputs/clusters has them"});
  table.push_back({.path = "plan.rail_gb_per_s",
                   .flag = "--rail-gb-per-s",
                   .field = &job.rail_gb_per_s,
                   .help = "What a link between nodes carries, in place of the file's rate; 0: the "
                           "file's",
                   .unit = "10^9 bytes a second",
                   .range = config::between(0, 1e6)});
  return table;
}

comm::Topology read(ClusterJob& job, const std::vector<config::Option>& given) {
  if (job.file.empty()) {
    throw Error(ExitCode::usage,
                "plan.cluster (--cluster) is missing: give a file of inputs/clusters, or one that "
                "zpp_plan calibrate made");
  }
  job.cluster = read_cluster(job.file);
  const config::TrainConfig& config = job.job.config;
  if (!config.bf16 && !config.fp16) {
    log::warn(fmt::format(
        "the products' rates in {} are of 16-bit values, and this run computes in fp32: "
        "it takes longer than is said: give --bf16 or --fp16, or rates in fp32",
        job.file));
  }
  if (!config::is_given(given, "plan.nodes")) job.job.nodes = job.cluster.nodes;
  if (job.job.ranks_per_node == 0 && job.job.config.node_size == 0) {
    job.job.ranks_per_node = job.cluster.gpus_per_node;
  }
  if (job.rail_gb_per_s > 0) job.cluster = with_link_rate(job.cluster, job.rail_gb_per_s * 1e9);
  return topology_of(job.job);
}

config::Machine machine_for(const ClusterJob& job, const comm::Topology& topology) {
  return machine_for(topology, /*rdma=*/job.cluster.rails.lanes.size() <= 1);
}

}  // namespace zeropp::plan

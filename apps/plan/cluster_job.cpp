#include "apps/plan/cluster_job.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/units.hpp"
#include "lib/plan/break_even.hpp"

namespace zeropp::plan_app {

std::vector<config::Option> options(ClusterJob& job) {
  std::vector<config::Option> table = options(job.job);
  for (config::Option& option : options(job.source)) table.push_back(std::move(option));
  table.push_back({.path = "plan.rail_gb_per_s",
                   .flag = "--rail-gb-per-s",
                   .field = &job.rail_gb_per_s,
                   .help = "Rate of a link between nodes, instead of the cluster's; 0: the "
                           "cluster's",
                   .unit = "10^9 bytes per second",
                   .range = config::between(0, 1e6)});
  return table;
}

config::Option memory_limit_option(double& limit) {
  return {.path = "plan.memory_limit",
          .flag = "--memory-limit",
          .field = &limit,
          .help =
              "Memory of a rank, which configurations have to fit into; 0: no limit, which is "
              "what is meant without plan.cluster, whose GPU's memory it is else; "
              "zeropp.device_memory_limit holds besides",
          .unit = "GiB",
          .range = config::at_least(0)};
}

void take_memory_limit(double& limit, const ClusterJob& job,
                       const std::vector<config::Option>& given) {
  if (job.source.is_named() && !config::is_given(given, "plan.memory_limit")) {
    limit = job.cluster.gpu.memory / kGibibyte;
  }
  const double of_device = static_cast<double>(job.job.config.device_memory_limit) / kGibibyte;
  if (of_device > 0 && (limit == 0 || of_device < limit)) limit = of_device;
}

void take_cluster(ClusterJob& job, const std::vector<config::Option>& given) {
  check(job.source, given);
  if (job.source.is_named()) {
    job.cluster = read(job.source, declared_ranks_per_node(job.job).value_or(kUsualRanksPerNode));
  } else if (job.rail_gb_per_s != 0) {
    throw Error(ExitCode::usage,
                "--rail-gb-per-s would have no effect: it replaces a rate of the cluster that "
                "--cluster or --gpu names; give one of them, or leave it out");
  }
}

void require_cluster(ClusterJob& job, const std::vector<config::Option>& given) {
  check(job.source, given);
  if (!job.source.is_named()) {
    throw Error(ExitCode::usage,
                "plan.cluster (--cluster) is missing: give a file of inputs/clusters, one that "
                "zpp_plan calibrate made, or --gpu and --node-gbit");
  }
  take_cluster(job, given);
}

comm::Topology topology_on_cluster(ClusterJob& job, const std::vector<config::Option>& given) {
  const config::TrainConfig& config = job.job.config;
  if (config.bf16 && job.source.gpu == "v100") {
    throw Error(ExitCode::usage, "--gpu v100: a V100 has no products in bf16: give --fp16");
  }
  if (!config.bf16 && !config.fp16) {
    log::warn(fmt::format(
        "the products' rates of {} are of 16-bit values, and this run computes in fp32: "
        "it takes longer than is said: give --bf16 or --fp16, or rates in fp32",
        job.source.file.empty() ? job.source.gpu : job.source.file));
  }
  if (!config::is_given(given, "plan.nodes")) {
    job.job.nodes = job.cluster.nodes;
    log::info(fmt::format("no --nodes: {} node{} planned, as the cluster has", job.job.nodes,
                          job.job.nodes == 1 ? " is" : "s are"));
  }
  if (!declared_ranks_per_node(job.job)) job.job.ranks_per_node = job.cluster.gpus_per_node;
  if (job.rail_gb_per_s > 0) {
    if (job.job.nodes == 1) {
      throw Error(ExitCode::usage,
                  "--rail-gb-per-s is the rate of a link between nodes, and would have no effect "
                  "where one node is planned: give --nodes with 2 or more, or leave the rate out");
    }
    job.cluster = plan::with_link_rate(job.cluster, job.rail_gb_per_s * 1e9);
    job.cluster.name += fmt::format(", but links of {:g} GB/s", job.rail_gb_per_s);
  }
  if (job.cluster.nodes == 1 && job.job.nodes > 1 && job.rail_gb_per_s == 0) {
    log::warn(fmt::format(
        "{} nodes are planned, and the cluster '{}' is of one: no link between nodes was measured "
        "for it, and the times are those of the rate that its file has: give --rail-gb-per-s, or "
        "the cluster file of several nodes",
        job.job.nodes, job.cluster.name));
  }
  return topology_of(job.job);
}

void require_several_nodes(const comm::Topology& topology, std::string_view why) {
  if (topology.node_count > 1) return;
  throw Error(
      ExitCode::usage,
      fmt::format("plan.nodes 1: {}: give --nodes with 2 or more; or zpp_plan search --goal "
                  "time orders configurations of one node by their time",
                  why));
}

config::Machine machine_for(const ClusterJob& job, const comm::Topology& topology) {
  return machine_for(topology, /*rdma=*/job.cluster.rails.lanes.size() <= 1);
}

}  // namespace zeropp::plan_app

// A job on a cluster that is described: the options that the commands which tell times share.
#pragma once

#include <string_view>
#include <vector>

#include "apps/plan/cluster_source.hpp"
#include "apps/plan/job.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan_app {

struct ClusterJob {
  Job job;
  ClusterSource source;
  double rail_gb_per_s = 0;  ///< of a link between nodes; 0: the rate of the source
  plan::Cluster cluster;
};

/// The tables of options(Job&) and options(ClusterSource&), and --rail-gb-per-s.
std::vector<config::Option> options(ClusterJob& job);

/// --memory-limit in GiB, which the commands share that say what fits; not given, it is the memory
/// of the cluster's GPU.
config::Option memory_limit_option(double& limit);
/// Completes `limit`, after take_cluster(): GiB; 0 where nobody says.
void take_memory_limit(double& limit, const ClusterJob& job,
                       const std::vector<config::Option>& given);

/// Reads the cluster, where one is named, before take_job(): a wrong name is told before a model
/// that is missing. Throws Error, also where none is named and flags say something of one.
void take_cluster(ClusterJob& job, const std::vector<config::Option>& given);
/// Reads the cluster of a command that has no answer without one: throws Error(usage) where none is
/// named.
void require_cluster(ClusterJob& job, const std::vector<config::Option>& given);

/// Topology of the planned run on the cluster that was taken. Nodes and ranks per node that were
/// not given are the cluster's. Warns where the cluster has no rates for the run: products in fp32,
/// or links between nodes. Throws Error.
comm::Topology topology_on_cluster(ClusterJob& job, const std::vector<config::Option>& given);

/// Refuses one node, for a command about what crosses nodes: `why` it has no answer.
void require_several_nodes(const comm::Topology& topology, std::string_view why);

/// The cluster's machine, or without a cluster machine_for(topology). Rails that have rates for
/// several lanes go over sockets.
config::Machine machine_for(const ClusterJob& job, const comm::Topology& topology);

}  // namespace zeropp::plan_app

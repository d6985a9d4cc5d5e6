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
  double rail_gb_per_s = 0;  ///< of a link between nodes, in place of the source's; 0: its
  plan::Cluster cluster;
};

/// The tables of options(Job&) and options(ClusterSource&), and --rail-gb-per-s.
std::vector<config::Option> options(ClusterJob& job);

/// --memory-limit in GiB, which the commands share that say what fits; not given, it is the memory
/// of the cluster's GPU.
config::Option memory_limit_option(double& limit);
/// Completes `limit`, after read(): GiB; 0 where nobody says.
void take_memory_limit(double& limit, const ClusterJob& job,
                       const std::vector<config::Option>& given);

/// Reads the cluster; nodes and ranks a node that were not given are the cluster's. Throws Error,
/// also where no cluster is named.
comm::Topology read(ClusterJob& job, const std::vector<config::Option>& given);

/// A command that tells no times without a cluster calls this: throws Error(usage) where flags say
/// something of one that is not named.
void refuse_rates_of_no_cluster(const ClusterJob& job, const std::vector<config::Option>& given);

/// The cluster's, or without one that of machine_for(topology): rails that have rates for several
/// lanes are of sockets.
config::Machine machine_for(const ClusterJob& job, const comm::Topology& topology);

}  // namespace zeropp::plan_app

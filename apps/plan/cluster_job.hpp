// A job on a cluster that is described in a file: the options that the commands which tell times
// share.
#pragma once

#include <string>
#include <vector>

#include "apps/plan/job.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan {

struct ClusterJob {
  Job job;
  std::string file;          ///< of the cluster
  double rail_gb_per_s = 0;  ///< of a link between nodes, in place of the file's; 0: the file's
  Cluster cluster;
};

/// Those of options(Job&), and --cluster, --rail-gb-per-s.
std::vector<config::Option> options(ClusterJob& job);

/// Reads the cluster; nodes and ranks a node that were not given are the cluster's. Throws Error.
comm::Topology read(ClusterJob& job, const std::vector<config::Option>& given);

/// The cluster's, or without one that of machine_for(topology): rails that have rates for several
/// lanes are of sockets.
config::Machine machine_for(const ClusterJob& job, const comm::Topology& topology);

}  // namespace zeropp::plan

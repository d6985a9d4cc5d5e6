// What zpp_plan search is asked: the base configuration, the cluster's sizes, limits and a goal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/plan/job.hpp"
#include "lib/plan/cluster.hpp"
#include "lib/plan/search.hpp"

namespace zeropp::plan {

struct SearchJob {
  Job job;                     ///< without its nodes
  std::string nodes = "1";     ///< "1,2,4"
  std::string goal = "bytes";  ///< bytes, memory, time
  std::string cluster_file;    ///< empty: no times
  std::optional<Cluster> cluster;
  double memory_limit = 0;  ///< GiB of a rank; 0: none
  double minimum_weight_bits = 0;
  double minimum_gradient_bits = 0;
  std::size_t rows = 10;
};

/// Every option, bound to `asked`, which outlives the table.
std::vector<config::Option> options(SearchJob& asked);

/// Reads the cluster, where there is one: ranks a node that were not given are its. Throws Error:
/// what is wrong with the file, or that times were asked for without one.
void read_cluster_of(SearchJob& asked);

/// A topology for each number in asked.nodes. Throws Error(usage).
std::vector<comm::Topology> topologies_of(SearchJob& asked);

/// whole_space(), without the choices that `given` has made.
SearchSpace space_of(const SearchJob& asked, const std::vector<config::Option>& given,
                     const comm::Topology& topology, const config::Machine& machine);

SearchLimits limits_of(const SearchJob& asked);

}  // namespace zeropp::plan

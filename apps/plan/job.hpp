// The run that is planned: the trainer's configuration, and the ranks that it is to have. Its
// options are those of zpp_train, and a few of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/comm/topology.hpp"
#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::plan {

struct Job {
  config::TrainConfig config;
  std::size_t nodes = 1;
  std::size_t ranks_per_node = 0;  ///< 0: the declared zeropp.node_size, or 8
  std::size_t step = 0;            ///< steps before the one that is planned
};

/// Every option, bound to `job`, which outlives the table.
std::vector<config::Option> options(Job& job);

/// Completes job.ranks_per_node. Throws Error(usage) where zeropp.node_size contradicts it, or
/// ranks or layers are too many to be planned one by one.
comm::Topology topology_of(Job& job);

/// Where nobody gave the size of a transformer: says which one is planned.
void warn_of_default_model(const Job& job, const std::vector<config::Option>& given);

/// What a configuration is resolved against: nodes with a GPU for every rank, a network with RDMA
/// or of sockets, and all that is registered in this build.
config::Machine machine_for(const comm::Topology& topology, bool rdma = true);

}  // namespace zeropp::plan

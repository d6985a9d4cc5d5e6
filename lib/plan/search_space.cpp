#include <fmt/format.h>

#include "lib/plan/search.hpp"

namespace zeropp::plan {

namespace {

/// Parts of a node, nodes, and powers of two of them.
std::vector<std::size_t> hpz_sizes(const comm::Topology& topology) {
  const auto local = static_cast<std::size_t>(topology.ranks_per_node);
  const auto world = static_cast<std::size_t>(topology.world_size);
  std::vector<std::size_t> sizes{1};
  for (std::size_t size = 2; size <= local; ++size) {
    if (local % size == 0) sizes.push_back(size);
  }
  for (std::size_t size = 2 * local; size <= world; size *= 2) {
    if (world % size == 0) sizes.push_back(size);
  }
  return sizes;
}

std::vector<std::string> names_of(const std::vector<collective::Algorithm>& algorithms) {
  std::vector<std::string> names;
  names.reserve(algorithms.size());
  for (const collective::Algorithm& algorithm : algorithms) names.push_back(algorithm.name);
  return names;
}

std::vector<std::size_t> micro_batches(const config::TrainConfig& config,
                                       const comm::Topology& topology) {
  if (config.train_micro_batch_size_per_gpu > 0) return {config.train_micro_batch_size_per_gpu};
  const auto world = static_cast<std::size_t>(topology.world_size);
  const std::size_t of_rank = config.train_batch_size / world;
  std::vector<std::size_t> sizes{1};
  for (std::size_t size = 2; size <= of_rank; size *= 2) {
    if (of_rank % size == 0) sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

SearchSpace whole_space(const config::TrainConfig& config, const comm::Topology& topology,
                        const config::Machine& machine) {
  SearchSpace space;
  space.stages = {0, 1, 2, 3};
  for (const char* codec : {"none", "int8:256", "int6:256", "int4:256"}) {
    space.weights.push_back({codec::parse_codec(codec)});
  }
  space.weights.push_back({codec::parse_codec("int8:256"), config.zero.weight_differences.codec});
  for (const auto& [intra, inter] : {std::pair{"none", "none"},
                                     {"int8:128", "int8:128"},
                                     {"int8:128", "int6:128"},
                                     {"int8:128", "int4:128+had32"},
                                     {"int6:128", "int6:128"},
                                     {"int4:128", "int4:128"}}) {
    space.gradient_codecs.push_back({codec::parse_codec(intra), codec::parse_codec(inter)});
  }
  space.hpz_sizes = hpz_sizes(topology);
  space.all_gathers = names_of(machine.all_gather);
  space.reduce_scatters = names_of(machine.reduce_scatter);
  space.recompute = {false, true};
  space.micro_batches = micro_batches(config, topology);
  if (topology.node_count > 1 && topology.ranks_per_node > 1) {
    space.shard_groups.push_back(static_cast<std::size_t>(topology.ranks_per_node));
  }
  return space;
}

}  // namespace zeropp::plan

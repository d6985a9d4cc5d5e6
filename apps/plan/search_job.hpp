// Job of zpp_plan search: the base configuration, the cluster's sizes, limits and a goal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/plan/cluster_job.hpp"
#include "lib/plan/search.hpp"

namespace zeropp::plan_app {

/// Goal of a search, of which the first configuration has least: bytes across nodes, memory of a
/// rank, time of a step.
enum class Goal : std::uint8_t { bytes, memory, time };
constexpr auto enum_names(Goal) { return name_table("bytes", "memory", "time"); }

struct SearchJob {
  ClusterJob base;    ///< without its nodes; times where a cluster is named
  std::string nodes;  ///< "1,2,4"; empty: the cluster's, or 1
  Goal goal = Goal::bytes;
  double memory_limit = 0;  ///< GiB of a rank; 0: none. Unless given, the cluster's GPU's
  /// Bits of int8, which the paper sends: weights in 4 bits cost held-out loss, as
  /// docs/howto/safe-compression.md shows. Zero where a codec of weights is given and this is not.
  double minimum_weight_bits = 8;
  double minimum_gradient_bits = 0;
  std::size_t rows = 10;
  bool wide = false;  ///< printed tables have every column
};

/// Every option, bound to `asked`, which outlives the table.
std::vector<config::Option> options(SearchJob& asked);

/// Reads the cluster as take_cluster(ClusterJob&) does. Throws Error(usage) too where none is named
/// and --goal time was given; choose_goal() chooses it later only where one is named.
void take_cluster(SearchJob& asked, const std::vector<config::Option>& given);

/// Takes time as the goal where nobody gave one, on one node of a cluster whose rates are known: no
/// bytes cross nodes, which the rows would else be ordered by. Says so.
void choose_goal(SearchJob& asked, const std::vector<config::Option>& given,
                 const std::vector<comm::Topology>& topologies);

/// A topology for each number in asked.nodes, which are the cluster's unless `given`. Throws Error.
std::vector<comm::Topology> topologies_of(SearchJob& asked,
                                          const std::vector<config::Option>& given);

/// Completes the limits after take_cluster(): the memory of the cluster's GPU, where there is one,
/// and no minimum of bits that rules a given codec out.
void take_limits(SearchJob& asked, const std::vector<config::Option>& given);

/// whole_space(), without the choices that `given` has made.
plan::SearchSpace space_of(const SearchJob& asked, const std::vector<config::Option>& given,
                           const comm::Topology& topology, const config::Machine& machine);

/// Throws Error(usage) for an option of `given` that has no effect on any configuration of the
/// spaces of all `topologies`.
void check_effects(SearchJob& asked, const std::vector<config::Option>& given,
                   const std::vector<comm::Topology>& topologies);

plan::SearchLimits limits_of(const SearchJob& asked);

}  // namespace zeropp::plan_app

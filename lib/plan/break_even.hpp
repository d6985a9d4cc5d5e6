// The bandwidth between nodes below which one configuration is faster than another. Pure functions.
#pragma once

#include <span>

#include "lib/plan/cluster.hpp"
#include "lib/plan/planned_run.hpp"

namespace zeropp::plan {

/// Rates of a link between nodes that are tried, bytes/s.
inline constexpr double kSlowestLink = 1e7;
inline constexpr double kFastestLink = 1e13;

/// Of a step, by the fastest of `runs`. At least one.
double shortest_step(std::span<const PlannedRun> runs, const Cluster& cluster);

/// Bytes/s: the fastest link with which a step of `with` is shorter than each of `without` by the
/// share `gain`, to 1 %; kFastestLink when it is with every link, 0 when with none that is tried.
/// Of the cluster, everything but the rate of its links, the same with any number of lanes.
double break_even(std::span<const PlannedRun> without, const PlannedRun& with,
                  const Cluster& cluster, double gain);

/// The cluster with links of `rate` bytes/s, whatever the message, the lanes and the route.
Cluster with_link_rate(Cluster cluster, double rate);

}  // namespace zeropp::plan

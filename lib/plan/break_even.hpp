// The bandwidth between nodes below which one configuration is faster than another. Pure functions.
#pragma once

#include "lib/plan/cluster.hpp"
#include "lib/plan/planned_run.hpp"

namespace zeropp::plan {

/// Rates of a link between nodes that are tried, bytes/s.
inline constexpr double kSlowestLink = 1e7;
inline constexpr double kFastestLink = 1e13;

/// A step that is shorter by this share pays.
inline constexpr double kGain = 0.01;

/// Bytes/s: the fastest link with which a step of `with` is shorter than one of `without` by kGain,
/// to 1 %; kFastestLink when it is with every link, 0 when with none that is tried. Of the cluster,
/// everything but the rate of its links, the same with any number of lanes.
double break_even(const PlannedRun& without, const PlannedRun& with, const Cluster& cluster);

/// The cluster with links of `rate` bytes/s.
Cluster with_link_rate(Cluster cluster, double rate);

}  // namespace zeropp::plan

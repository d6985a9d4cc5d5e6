// The rates between nodes at which one configuration is faster than another. Pure functions.
#pragma once

#include <span>
#include <vector>

#include "lib/plan/cluster.hpp"
#include "lib/plan/planned_run.hpp"

namespace zeropp::plan {

/// Rates of a link between nodes that are tried, bytes/s.
inline constexpr double kSlowestLink = 1e7;
inline constexpr double kFastestLink = 1e13;

/// Seconds of a step of the fastest of `runs`, of which there is at least one.
double shortest_step(std::span<const PlannedRun> runs, const Cluster& cluster);

/// Rates of a link, bytes/s: more than `from` and less than `below`.
struct Rates {
  double from = 0;
  double below = 0;
};

/// For each of `with`: the ranges of rates, in ascending order, at which its step is shorter than
/// every step of `without` by the share `gain`. The search tries rates from kSlowestLink to
/// kFastestLink, and the cluster's own rate, so that the answer at that rate agrees with a step
/// there. The ends of a range are exact to 0.1 %. Everything else of the cluster stays, and the
/// rates between nodes keep their ratios; a rate is the rate of one lane.
std::vector<std::vector<Rates>> pays_where(std::span<const PlannedRun> without,
                                           std::span<const PlannedRun> with, const Cluster& cluster,
                                           double gain);
/// The fastest link with which it pays: kFastestLink or more with every one that is tried, 0 with
/// none.
double fastest_of(std::span<const Rates> pays);

/// The cluster with links of `rate` bytes/s, whatever the message, the lanes and the route.
Cluster with_link_rate(Cluster cluster, double rate);

}  // namespace zeropp::plan

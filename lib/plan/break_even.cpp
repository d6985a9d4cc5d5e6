#include "lib/plan/break_even.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/plan/step_time.hpp"

namespace zeropp::plan {

Cluster with_link_rate(Cluster cluster, double rate) {
  cluster.rails.ring_rate = 0;
  for (LaneRate& row : cluster.rails.lanes) {
    row.rate = rate;
    row.sizes.clear();
  }
  return cluster;
}

double shortest_step(std::span<const PlannedRun> runs, const Cluster& cluster) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const PlannedRun& run : runs) shortest = std::min(shortest, step_seconds(run, cluster));
  return shortest;
}

double break_even(std::span<const PlannedRun> without, const PlannedRun& with,
                  const Cluster& cluster, double gain) {
  const auto pays = [&](double rate) {
    const Cluster tried = with_link_rate(cluster, rate);
    return step_seconds(with, tried) < (1 - gain) * shortest_step(without, tried);
  };
  // From fast to slow: a part may pay again where the other's transfers begin to show.
  constexpr double kStep = 1.5;
  double above = kFastestLink;
  if (pays(above)) return above;
  double below = above;
  do {
    above = below;
    below /= kStep;
    if (below < kSlowestLink) return 0;
  } while (!pays(below));
  while (above / below > 1.01) {
    const double middle = std::sqrt(above * below);
    (pays(middle) ? below : above) = middle;
  }
  return below;
}

}  // namespace zeropp::plan

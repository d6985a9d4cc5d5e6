#include "lib/plan/break_even.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/in_parallel.hpp"
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

namespace {

/// Cluster whose links keep the ratios of their rates, and whose one lane carries `rate`.
Cluster as_fast_as(Cluster cluster, double rate) {
  const double factor = rate / cluster.rails.with(1).rate;
  cluster.rails.ring_rate *= factor;
  for (LaneRate& row : cluster.rails.lanes) {
    row.rate *= factor;
    for (SizeRate& size : row.sizes) size.rate *= factor;
  }
  return cluster;
}

std::vector<double> tried_rates(double own) {
  constexpr double kStep = 1.2;
  std::vector<double> rates{kFastestLink};
  for (double rate = kSlowestLink; rate < kFastestLink; rate *= kStep) rates.push_back(rate);
  if (own > kSlowestLink && own < kFastestLink) rates.push_back(own);
  std::ranges::sort(rates);
  return rates;
}

}  // namespace

std::vector<std::vector<Rates>> pays_where(std::span<const PlannedRun> without,
                                           std::span<const PlannedRun> with, const Cluster& cluster,
                                           double gain) {
  const double own = cluster.rails.with(1).rate;
  const auto at = [&](double rate) { return rate == own ? cluster : as_fast_as(cluster, rate); };
  const std::vector<double> tried = tried_rates(own);
  const std::vector<double> shortest = in_parallel(
      tried.size(), [&](std::size_t i) { return shortest_step(without, at(tried[i])); });
  return in_parallel(with.size(), [&](std::size_t index) {
    const auto pays = [&](double rate, double before) {
      return step_seconds(with[index], at(rate)) < (1 - gain) * before;
    };
    std::vector<Rates> ranges;
    bool paid = false;
    for (std::size_t i = 0; i < tried.size(); ++i) {
      const bool now = pays(tried[i], shortest[i]);
      if (now != std::exchange(paid, now)) {
        double same = i == 0 ? tried[0] : tried[i - 1];  // as the rate before
        double other = tried[i];
        while (other / same > 1.001) {
          const double middle = std::sqrt(same * other);
          const bool changed = pays(middle, shortest_step(without, at(middle))) == now;
          (changed ? other : same) = middle;
        }
        if (now) {
          ranges.push_back({.from = i == 0 ? kSlowestLink : same, .below = kFastestLink});
        } else {
          ranges.back().below = other;
        }
      }
    }
    return ranges;
  });
}

double fastest_of(std::span<const Rates> pays) { return pays.empty() ? 0 : pays.back().below; }

}  // namespace zeropp::plan

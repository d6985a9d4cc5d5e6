// Made-up fabrics for tests: times of each class of links with noise, and slow links in them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "apps/fabric/map.hpp"

namespace zeropp::fabric::test {

inline constexpr double kThreshold = 0.25;
inline constexpr std::size_t kBytes = 1U << 20U;

/// Times of each class, in us, with lognormal noise of that sigma on every one.
inline FabricMap made_up(int nodes, int locals, double sigma, std::uint64_t seed) {
  FabricMap map;
  map.message_bytes = kBytes;
  for (int node = 0; node < nodes; ++node) {
    for (int local = 0; local < locals; ++local) map.local_ranks.push_back({node, local});
  }
  std::mt19937_64 engine(seed);
  std::lognormal_distribution<double> noise(0, sigma);
  const auto timing = [&](double microseconds) {
    const double seconds = microseconds * 1e-6 * noise(engine);
    return Timing{seconds, microseconds * 1e-6 * sigma, seconds};
  };
  map.links.resize(map.ranks() * map.ranks());
  constexpr double kLatency[] = {0.2, 1, 3};
  constexpr double kTransfer[] = {30, 60, 120};
  for (std::size_t from = 0; from < map.ranks(); ++from) {
    for (std::size_t to = 0; to < map.ranks(); ++to) {
      const auto link = static_cast<std::size_t>(map.link_class(from, to));
      map.link(from, to) = {timing(kLatency[link]), timing(kTransfer[link]), 0};
    }
  }
  if (nodes > 1) {
    map.rail_bytes = kBytes;
    for (std::size_t rank = 0; rank < map.ranks(); ++rank) {
      map.rails.push_back({timing(9), timing(200)});
    }
  }
  return map;
}

inline std::vector<std::string> hosts_of(const FabricMap& map) {
  std::vector<std::string> hosts;
  hosts.reserve(map.local_ranks.size());
  for (const comm::LocalRank& rank : map.local_ranks)
    hosts.push_back(fmt::format("n{}", rank.node));
  return hosts;
}

inline void slow_down(Link& link, double times) {
  for (Timing* timing : {&link.latency, &link.transfer}) {
    timing->value *= times;
    timing->least *= times;
  }
}

}  // namespace zeropp::fabric::test

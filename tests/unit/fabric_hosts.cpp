// ctest: name=fabric_hosts timeout=60 labels=sanitize link=zeropp_app_fabric
// The largest set of hosts without a bad pair: as large as the search of all subsets says, on
// random and planted graphs; and what made-up fabrics say of their hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>

#include "apps/fabric/hosts.hpp"
#include "tests/support/made_up_fabric.hpp"

namespace zeropp::fabric {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

using Graph = std::vector<std::vector<bool>>;

Graph random_graph(std::size_t hosts, double share, std::mt19937& engine) {
  std::bernoulli_distribution joined(share);
  Graph bad(hosts, std::vector<bool>(hosts, false));
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = a + 1; b < hosts; ++b) bad[a][b] = bad[b][a] = joined(engine);
  }
  return bad;
}

bool is_good(const Graph& bad, const std::vector<std::size_t>& set) {
  for (const std::size_t a : set) {
    for (const std::size_t b : set) {
      if (bad[a][b]) return false;
    }
  }
  return true;
}

/// Size of the largest set, by all subsets.
std::size_t largest(const Graph& bad) {
  std::size_t most = 0;
  for (std::uint32_t subset = 0; subset < (1U << bad.size()); ++subset) {
    const auto size = static_cast<std::size_t>(std::popcount(subset));
    if (size <= most) continue;
    std::vector<std::size_t> set;
    for (std::size_t host = 0; host < bad.size(); ++host) {
      if ((subset >> host & 1U) != 0) set.push_back(host);
    }
    if (is_good(bad, set)) most = size;
  }
  return most;
}

TEST(FabricHosts, NoLargerSetExists) {
  std::mt19937 engine(7);
  for (std::size_t hosts = 0; hosts <= 12; ++hosts) {
    for (const double share : {0.05, 0.2, 0.4, 0.6, 0.9}) {
      for (int trial = 0; trial < 8; ++trial) {
        Graph bad = random_graph(hosts, share, engine);
        if (hosts > 0 && trial % 2 == 1) {
          const std::size_t broken = engine() % hosts;
          bad[broken][broken] = true;
        }
        const HostSet set = largest_good_set(bad);
        EXPECT_TRUE(set.exact);
        EXPECT_TRUE(is_good(bad, set.members));
        EXPECT_TRUE(std::ranges::is_sorted(set.members));
        EXPECT_EQ(set.members.size(), largest(bad)) << hosts << " hosts, share " << share;
      }
    }
  }
}

TEST(FabricHosts, PlantedSetsOfManyHostsAreFound) {
  // A set of 40 of 64 hosts is planted; each other host has a bad pair with 30 of its members, so
  // that no set with another host has as many.
  std::mt19937 engine(11);
  Graph bad = random_graph(64, 0, engine);
  for (std::size_t host = 40; host < 64; ++host) {
    for (std::size_t i = 0; i < 30; ++i) {
      const std::size_t member = (host + i) % 40;
      bad[host][member] = bad[member][host] = true;
    }
  }
  const HostSet set = largest_good_set(bad);
  EXPECT_TRUE(set.exact);
  EXPECT_EQ(set.members.size(), 40U);
  EXPECT_EQ(set.members.back(), 39U);
}

TEST(FabricHosts, ManyGoodHostsLeaveTheSearchExact) {
  // 1,000 hosts of which three meet badly in a ring: two of the three go.
  std::mt19937 engine(13);
  Graph bad = random_graph(1000, 0, engine);
  for (const auto& [a, b] : {std::pair{10, 500}, {500, 900}, {10, 900}})
    bad[a][b] = bad[b][a] = true;
  const HostSet set = largest_good_set(bad);
  EXPECT_TRUE(set.exact);
  EXPECT_EQ(set.members.size(), 998U);
}

TEST(FabricHosts, TheGreedySetIsGoodAndCannotGrow) {
  std::mt19937 engine(17);
  for (const double share : {0.1, 0.5}) {
    const Graph bad = random_graph(90, share, engine);
    const HostSet set = largest_good_set(bad);
    EXPECT_FALSE(set.exact);
    EXPECT_TRUE(is_good(bad, set.members));
    for (std::size_t host = 0; host < bad.size(); ++host) {
      if (std::ranges::find(set.members, host) != set.members.end()) continue;
      std::vector<std::size_t> larger = set.members;
      larger.push_back(host);
      EXPECT_FALSE(is_good(bad, larger)) << host;
    }
  }
  // One bad host among 100, with a bad pair with each other: the greedy set is the largest.
  Graph star = random_graph(100, 0, engine);
  for (std::size_t host = 0; host < 100; ++host) {
    if (host != 42) star[42][host] = star[host][42] = true;
  }
  EXPECT_EQ(largest_good_set(star).members.size(), 99U);
}

TEST(FabricHosts, TheHostOfASlowRankIsDrained) {
  FabricMap map = test::made_up(4, 2, 0.01, 3);
  for (std::size_t other = 0; other < map.ranks(); ++other) {
    if (other == 5) continue;
    test::slow_down(map.link(5, other), 3);
  }
  const auto hosts = test::hosts_of(map);
  const Hosts sorted = sort_hosts(map, judge(map, test::kThreshold), hosts);
  EXPECT_THAT(sorted.good, ElementsAre("n0", "n1", "n3"));
  ASSERT_EQ(sorted.bad.size(), 1U);
  EXPECT_TRUE(sorted.exact);
  const std::string command = drain_command(sorted.bad.front());
  EXPECT_THAT(command, StartsWith("scontrol update nodename=n2 state=drain reason=\"zpp_fabric: "
                                  "rank 5 (n2) is slow on "));
  EXPECT_EQ(std::ranges::count(command, '"'), 2);
  EXPECT_EQ(command.find('\n'), std::string::npos);
}

TEST(FabricHosts, AHostThatWasNotMeasuredIsLeftOutAndHasNoFault) {
  FabricMap map = test::made_up(3, 2, 0.01, 3);
  map.link(2, 2) = {};  // the copy of a rank's memory, on n1
  test::slow_down(map.link(4, 5), 3);
  const auto hosts = test::hosts_of(map);
  const Hosts sorted = sort_hosts(map, judge(map, test::kThreshold), hosts);
  EXPECT_THAT(sorted.good, ElementsAre("n0"));
  ASSERT_EQ(sorted.bad.size(), 2U);
  EXPECT_FALSE(sorted.bad[0].faulty);
  EXPECT_EQ(sorted.bad[0].reason, "not all of its links were measured");
  EXPECT_TRUE(sorted.bad[1].faulty);
}

TEST(FabricHosts, OneEndOfABadLinkGoes) {
  const FabricMap sound = test::made_up(4, 1, 0.01, 3);
  const auto hosts = test::hosts_of(sound);
  EXPECT_THAT(sort_hosts(sound, judge(sound, test::kThreshold), hosts).bad, IsEmpty());
  FabricMap slow = sound;
  test::slow_down(slow.link(1, 3), 3);
  EXPECT_THAT(sort_hosts(slow, judge(slow, test::kThreshold), hosts).good,
              ElementsAre("n0", "n1", "n2"));
  FabricMap damaging = sound;
  damaging.link(2, 0).corrupted = 9;
  const Hosts damaged = sort_hosts(damaging, judge(damaging, test::kThreshold), hosts);
  EXPECT_THAT(damaged.good, ElementsAre("n0", "n1", "n3"));
  EXPECT_THAT(damaged.bad.front().reason, testing::HasSubstr("damages data"));
}

TEST(FabricHosts, AHostThatIsSlowInsideIsInNoSet) {
  FabricMap map = test::made_up(3, 4, 0.01, 5);
  test::slow_down(map.link(4, 5), 3);  // both of n1
  const Hosts sorted = sort_hosts(map, judge(map, test::kThreshold), test::hosts_of(map));
  EXPECT_THAT(sorted.good, ElementsAre("n0", "n2"));
  EXPECT_EQ(sorted.bad.front().host, "n1");
}

TEST(FabricHosts, WhatWasNotMeasuredIsNotGood) {
  FabricMap map = test::made_up(3, 1, 0, 1);
  map.link(0, 2) = Link{};
  const Hosts sorted = sort_hosts(map, judge(map, test::kThreshold), test::hosts_of(map));
  EXPECT_THAT(sorted.good, ElementsAre("n0", "n1"));
  EXPECT_EQ(sorted.bad.front().reason, "not all of its links were measured");
}

}  // namespace
}  // namespace zeropp::fabric

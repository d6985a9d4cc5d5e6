// ctest: name=fabric_doubts timeout=60 labels=sanitize link=zeropp_app_fabric
// Links and rails that are measured again. A survey takes back those of busy ranks that look slow,
// or all of theirs where no majority tells what is typical. Slow links of other ranks stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/fabric/doubts.hpp"
#include "tests/support/made_up_fabric.hpp"

namespace zeropp::fabric {
namespace {

using test::kThreshold;
using test::slow_down;

Doubts doubts_about(const FabricMap& map) { return doubts_of(map, judge(map, kThreshold)); }

TEST(FabricDoubts, AQuietFabricHasNone) {
  FabricMap map = test::made_up(2, 4, 0.01, 1);
  map.busy = {3};
  EXPECT_TRUE(doubts_about(map).links.empty());
  EXPECT_TRUE(doubts_about(map).rails.empty());
  EXPECT_FALSE(is_disturbed(map, doubts_about(map)));
}

TEST(FabricDoubts, WhatLooksSlowOnABusyRankIsTakenBackAlone) {
  FabricMap map = test::made_up(2, 4, 0.01, 1);
  slow_down(map.link(3, 0), 3);  // of the busy rank
  slow_down(map.link(3, 3), 3);
  slow_down(map.link(1, 6), 3);  // of others
  map.link(3, 0).corrupted = 2;
  map.rails[7].transfer = {900e-6, 0, 900e-6};  // waits for rank 3, of the same rail
  map.rails[2].transfer = {900e-6, 0, 900e-6};
  const Doubts before = doubts_about(map);
  EXPECT_EQ(before.links.size(), 6U);  // latency and bandwidth of each
  EXPECT_THAT(before.rails, testing::ElementsAre(2, 3));
  EXPECT_FALSE(is_disturbed(map, before));
  map.busy = {3};
  EXPECT_TRUE(is_disturbed(map, before));
  take_back(map, before);
  EXPECT_FALSE(map.link(3, 0).measured());
  EXPECT_EQ(map.link(3, 0).corrupted, 2);
  EXPECT_TRUE(map.link(0, 3).measured());
  EXPECT_TRUE(map.link(3, 5).measured());
  EXPECT_THAT(map.unmeasured(), testing::ElementsAre(testing::Pair(0, 3), testing::Pair(3, 3)));
  for (std::size_t rank = 0; rank < map.ranks(); ++rank) {
    EXPECT_EQ(map.rails[rank].measured(), map.local_ranks[rank].local != 3) << rank;
  }
  std::vector<Fault::Kind> left;
  for (const Fault& fault : judge(map, kThreshold).faults) left.push_back(fault.kind);
  using enum Fault::Kind;
  EXPECT_THAT(left, testing::ElementsAre(link, link, rail, corrupted));
}

TEST(FabricDoubts, WhereHalfOfTheRanksAreBusyEverythingIsInDoubt) {
  FabricMap map = test::made_up(1, 4, 0.01, 1);
  map.busy = {0, 2};
  const Doubts doubts = doubts_about(map);
  EXPECT_EQ(doubts.links.size(), 16U);
  EXPECT_TRUE(doubts.rails.empty());
  take_back(map, doubts);
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) {
      EXPECT_EQ(map.link(from, to).measured(), from % 2 == 1 && to % 2 == 1) << from << " " << to;
    }
  }
  map = test::made_up(2, 2, 0.01, 1);
  map.busy = {0, 1};
  EXPECT_THAT(doubts_about(map).rails, testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace zeropp::fabric

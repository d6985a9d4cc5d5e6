// ctest: name=comm_topology labels=sanitize
// Topologies as values: declared, found, described.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::comm {
namespace {

TEST(Topology, SaysWhatItIs) {
  EXPECT_EQ(declared_topology(4, 2).describe(), "2 nodes x 2 ranks (emulated)");
  EXPECT_EQ((Topology{4, 1, 4, false}.describe()), "1 node x 4 ranks");
  EXPECT_EQ((Topology{3, 2, 0, false}.describe()), "3 ranks on 2 nodes of unequal size");
}

TEST(Topology, DeclaredNodesDivideTheWorld) {
  const Topology topology = declared_topology(12, 4);
  EXPECT_EQ(topology.node_count, 3);
  EXPECT_EQ(topology.ranks_per_node, 4);
  EXPECT_TRUE(topology.emulated);
  EXPECT_EQ(topology.node_of(7), 1);
  EXPECT_EQ(topology.local_of(7), 3);
  for (const int node_size : {-4, 0, 5, 24}) {
    try {
      declared_topology(12, node_size);
      FAIL() << node_size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_THAT(error.what(), testing::HasSubstr("divides 12"));
    }
  }
}

TEST(Topology, OneRankIsNotManyRanks) {
  try {
    declared_topology(1, 3);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("1 rank cannot be laid out"));
  }
}

TEST(Topology, FoundNodesMayDifferInSize) {
  // Nodes in the order of the ranks that stand for them.
  const std::vector<int> equal{0, 0, 1, 1, 4, 4};
  const auto ranks = local_ranks_of(equal);
  const int nodes[] = {0, 0, 1, 1, 2, 2};
  const int locals[] = {0, 1, 0, 1, 0, 1};
  for (std::size_t r = 0; r < equal.size(); ++r) {
    EXPECT_EQ(ranks[r].node, nodes[r]);
    EXPECT_EQ(ranks[r].local, locals[r]);
  }
  const Topology even = found_topology(ranks);
  EXPECT_EQ(even.node_count, 3);
  EXPECT_EQ(even.ranks_per_node, 2);
  EXPECT_FALSE(even.emulated);

  const std::vector<int> unequal{0, 0, 2, 3, 3};
  const Topology odd = found_topology(local_ranks_of(unequal));
  EXPECT_EQ(odd.world_size, 5);
  EXPECT_EQ(odd.node_count, 3);
  EXPECT_FALSE(odd.uniform());
}

}  // namespace
}  // namespace zeropp::comm

// ctest: name=collective_descriptions np=1,3,4,6 labels=sanitize
// Descriptions without communicators equal the descriptions of planned collectives, and the shape
// of ranks in a topology equals the shape of a run's groups: for every algorithm, codec, count and
// depth.
#include <gtest/gtest.h>

#include "lib/collective/collective.hpp"
#include "lib/collective/error_feedback.hpp"
#include "tests/support/collective_cases.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;

constexpr std::size_t kCounts[] = {0, 1, 33, 2049, 30000};
constexpr std::pair<Dtype, std::size_t> kVariants[] = {{Dtype::fp32, 1}, {Dtype::bf16, 3}};

void expect_same(const comm::LevelShape& planned, const comm::LevelShape& of_run) {
  EXPECT_EQ(planned.world, of_run.world);
  EXPECT_EQ(planned.node, of_run.node);
  EXPECT_EQ(planned.rail, of_run.rail);
}

/// Shapes that are made from the topology alone.
Ranks ranks_in(const Cluster& cluster) {
  const comm::JobShape job = comm::shape_of_job(cluster.groups.topology, cluster.rank(), 0, 0);
  return {job, job.world};
}

template <class Planned>
void expect_described(const Planned& planned, const Description& described) {
  EXPECT_EQ(planned.volume(), described.bytes);
  EXPECT_EQ(planned.messages(), described.messages);
  EXPECT_EQ(planned.workspace_bytes(), described.workspace);
  EXPECT_TRUE(trace::same_keys(planned.row(), described.row));
}

TEST(Descriptions, ShapesAreThoseOfGroups) {
  for (const int node_size : test::node_sizes()) {
    SCOPED_TRACE(node_size);
    const Cluster cluster(node_size);
    expect_same(comm::shape_of_job(cluster.groups.topology, cluster.rank(), 0, 0),
                cluster.groups.shape());
    for (int group = 2; group <= cluster.size(); ++group) {
      if (!comm::fits_nodes(cluster.groups.topology, static_cast<std::size_t>(group))) continue;
      SCOPED_TRACE(group);
      (void)test::world().set_topology(node_size);
      const comm::Groups groups = test::world().make_groups(
          {.secondary_size = node_size % group == 0 ? group : 0, .shard_size = group});
      const comm::JobShape of_run = groups.shape();
      const comm::JobShape planned =
          comm::shape_of_job(groups.topology, groups.world->rank(),
                             static_cast<std::size_t>(node_size % group == 0 ? group : 0),
                             static_cast<std::size_t>(group));
      expect_same(planned, of_run);
      EXPECT_EQ(planned.secondary, of_run.secondary);
      EXPECT_EQ(planned.replicas, of_run.replicas);
      ASSERT_TRUE(of_run.shards.has_value());
      expect_same(planned.sharding(), of_run.sharding());
    }
  }
}

TEST(Descriptions, OfAllGathers) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : all_gather_algorithms()) {
      for (const auto& codec : test::codecs_for(*algorithm)) {
        for (const auto& [dtype, depth] : kVariants) {
          for (const std::size_t count : kCounts) {
            const AllGatherPlan plan{
                {count, count + 3}, dtype, codec, test::depth_for(depth, codec), "test"};
            SCOPED_TRACE(testing::Message()
                         << algorithm->name << " " << codec::to_string(codec) << " count " << count
                         << " depth " << plan.depth << " node size " << node_size);
            expect_described(*plan_all_gather(algorithm->name, cluster.context(), plan),
                             describe_all_gather(algorithm->name, ranks_in(cluster), plan));
          }
        }
      }
    }
  }
}

TEST(Descriptions, OfReduceScatters) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      for (const auto& [first, second] : test::codec_pairs(*algorithm)) {
        for (const auto& [plain, depth] : kVariants) {
          for (const std::size_t count : kCounts) {
            ReduceScatterPlan plan{{count, count + 3},
                                   Dtype::fp32,
                                   plain,
                                   first,
                                   second,
                                   test::depth_for(depth, first, second),
                                   "test"};
            SCOPED_TRACE(testing::Message()
                         << algorithm->name << " " << codec::to_string(first) << " "
                         << codec::to_string(second) << " count " << count << " depth "
                         << plan.depth << " node size " << node_size);
            expect_described(*plan_reduce_scatter(algorithm->name, cluster.context(), plan),
                             describe_reduce_scatter(algorithm->name, ranks_in(cluster), plan));
            if (!algorithm->traits.feedback) continue;
            ErrorFeedback feedback({.storage = ErrorStorage::int8}, test::device());
            plan.feedback = feedback.planned();
            const Description described =
                describe_reduce_scatter(algorithm->name, ranks_in(cluster), plan);
            EXPECT_EQ(feedback.hops()[0], nullptr) << "a description takes no memory";
            expect_described(*plan_reduce_scatter(algorithm->name, cluster.context(), plan),
                             described);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::collective

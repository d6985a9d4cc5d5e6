// ctest: name=zero_gradient_slabs labels=sanitize
// Slabs that gradient shards take turns in, where units are updated during backward: no unit's
// memory is given to another before its update, whatever the units and buckets.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "lib/zero/plan/gradient_slabs.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {
namespace {

std::vector<UnitPartition> units_of(const std::vector<std::size_t>& shards, std::size_t ranks) {
  std::vector<UnitPartition> units;
  for (const std::size_t shard : shards) {
    units.push_back({.parameters = shard * ranks,
                     .flat = shard * ranks,
                     .shard = shard,
                     .padded = shard * ranks,
                     .canonical = shard});
  }
  return units;
}

TEST(GradientSlabs, HaveTheRoomOfTheLargestBucketThreeTimes) {
  const std::vector<UnitPartition> units = units_of({640, 64, 64, 640, 640, 640, 640}, 2);
  const std::vector<Bucket> buckets{{{{6, 0, 640}}},
                                    {{{5, 0, 640}}},
                                    {{{4, 0, 640}}},
                                    {{{3, 0, 640}}},
                                    {{{2, 0, 64}, {1, 0, 64}}},
                                    {{{0, 0, 320}}},
                                    {{{0, 320, 320}}}};
  const GradientSlabs slabs = plan_gradient_slabs(units, buckets);
  EXPECT_TRUE(slabs.enabled());
  EXPECT_EQ(slabs.elements, 640U);
  EXPECT_EQ(slabs.slabs, 3U);
  EXPECT_EQ(slabs.bytes(), 3U * 640 * 4);
  EXPECT_EQ(slabs.places[6].turn, 0U);
  EXPECT_EQ(slabs.places[3].turn, 3U);
  EXPECT_EQ(slabs.places[2].turn, 4U);
  EXPECT_EQ(slabs.places[1].turn, 4U);
  EXPECT_EQ(slabs.places[1].offset, 64U);
  EXPECT_EQ(slabs.places[0].turn, 5U);
  EXPECT_FALSE(GradientSlabs{}.enabled());
  const GradientSlabs few = plan_gradient_slabs(units_of({640, 64, 640}, 2),
                                                {{{{2, 0, 640}}}, {{{1, 0, 64}}}, {{{0, 0, 640}}}});
  EXPECT_EQ(few.bytes(), (640U + 64 + 640) * 4);
  EXPECT_EQ(few.slabs, 1U);
  EXPECT_EQ(plan_gradient_slabs(units_of({7}, 1), {{{{0, 0, 7}}}}).bytes(), 64U * 4) << "one turn";
}

/// Follows the schedule's order and checks the content of a slab at each operation. Operations
/// begin as soon as the operations that they wait for have ended.
void expect_safe(const Schedule& schedule, const ScheduleInput& in) {
  // Whether operation i is sure to end before operation j begins: along waits, and by the order of
  // the stream `update`.
  std::vector<std::set<std::size_t>> before(schedule.ops.size());
  std::map<std::size_t, std::size_t> update_of;
  std::optional<std::size_t> last_update;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    std::vector<std::size_t> waits = schedule.ops[i].waits_on;
    if (schedule.ops[i].kind == OpKind::update) {
      if (last_update) waits.push_back(*last_update);
      last_update = i;
      EXPECT_TRUE(update_of.emplace(schedule.ops[i].index, i).second) << "updated twice";
    }
    for (const std::size_t wait : waits) {
      ASSERT_LT(wait, i);
      before[i].insert(wait);
      before[i].insert(before[wait].begin(), before[wait].end());
    }
  }
  ASSERT_EQ(update_of.size(), in.units.size());
  std::vector<std::vector<std::size_t>> reductions(in.units.size());
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    if (schedule.ops[i].kind != OpKind::reduce) continue;
    for (const Segment& segment : in.buckets[schedule.ops[i].index].segments)
      reductions[segment.unit].push_back(i);
  }
  for (std::size_t u = 0; u < in.units.size(); ++u) {
    for (const std::size_t reduction : reductions[u]) {
      EXPECT_TRUE(before[update_of[u]].contains(reduction)) << "unit " << u;
    }
  }
  // Units that share memory: one is updated before the other is reduced.
  for (std::size_t a = 0; a < in.units.size(); ++a) {
    for (std::size_t b = 0; b < in.units.size(); ++b) {
      const GradientSlabs::Place& first = in.slabs.places[a];
      const GradientSlabs::Place& second = in.slabs.places[b];
      EXPECT_LE(first.offset + in.units[a].shard, in.slabs.elements);
      if (a == b || first.turn % kGradientSlabs != second.turn % kGradientSlabs) continue;
      const bool overlap = first.offset < second.offset + in.units[b].shard &&
                           second.offset < first.offset + in.units[a].shard;
      if (!overlap) continue;
      ASSERT_NE(first.turn, second.turn) << a << " and " << b;
      if (first.turn > second.turn) continue;
      for (const std::size_t reduction : reductions[b]) {
        EXPECT_TRUE(before[reduction].contains(update_of[a])) << a << " before " << b;
      }
    }
  }
}

TEST(GradientSlabs, AreNotGivenAwayBeforeTheUpdate) {
  std::mt19937 engine(5);
  const auto draw = [&](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(engine);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> shards(draw(1, 24));
    for (std::size_t& shard : shards) shard = 8 * draw(1, draw(0, 3) == 0 ? 400 : 20);
    ScheduleInput in;
    in.units = units_of(shards, 2);
    for (std::size_t u = 0; u < shards.size(); ++u) in.layers.push_back({"", {u}});
    // A head that uses the embedding again: its unit is reduced last.
    if (draw(0, 1) == 0) in.layers.push_back({"", {0}});
    in.buckets =
        make_buckets(in.units, gradient_order(in.layers, shards.size()), 2, draw(1, 5000), 8, {});
    in.unit_memory.resize(shards.size());
    in.bucket_memory.resize(in.buckets.size());
    in.preset = stage_preset(draw(0, 1) == 0 ? 2 : 3);
    in.prefetch_elements = draw(0, 1000);
    in.overlap = draw(0, 3) > 0;
    in.slabs = plan_gradient_slabs(in.units, in.buckets);
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_NO_FATAL_FAILURE(expect_safe(make_step_schedule(in, false), in));
    for (const Op& op : make_update_schedule(in).ops) EXPECT_NE(op.kind, OpKind::update);
  }
}

}  // namespace
}  // namespace zeropp::zero

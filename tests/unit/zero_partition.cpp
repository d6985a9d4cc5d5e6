// ctest: name=zero_partition labels=sanitize
// How units are cut into shards, shards into buckets, and what a rank keeps of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/state_memory.hpp"

namespace zeropp::zero {
namespace {

TEST(Buckets, CoverEveryShardOnceInOrder) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<UnitPartition> units(1 + random() % 6);
    std::vector<std::size_t> order(units.size());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    for (auto& unit : units) unit.shard = 4 * (1 + random() % 500);
    const std::size_t quantum = 8U << (random() % 6);
    const std::size_t world = 1 + random() % 8;
    const std::size_t bucket_size = random() % 8000;
    const auto buckets = make_buckets(units, order, world, bucket_size, quantum);
    const std::size_t capacity = std::max(quantum, bucket_size / world / quantum * quantum);
    std::vector<std::size_t> covered(units.size(), 0);
    std::vector<std::size_t> sequence;
    for (const Bucket& bucket : buckets) {
      EXPECT_LE(bucket.count(), capacity);
      EXPECT_GT(bucket.count(), 0U);
      for (const Segment& segment : bucket.segments) {
        EXPECT_EQ(segment.offset, covered[segment.unit]) << "parts of a shard come in order";
        covered[segment.unit] += segment.count;
        if (sequence.empty() || sequence.back() != segment.unit) sequence.push_back(segment.unit);
      }
    }
    EXPECT_EQ(sequence, order);
    for (std::size_t u = 0; u < units.size(); ++u) EXPECT_EQ(covered[u], units[u].shard);
  }
}

TEST(Buckets, AreClosedOnceTheyHoldEnough) {
  const std::size_t world = 4;
  const std::size_t half = kEnoughForBucket / world / 2;
  std::vector<UnitPartition> units(5);
  for (auto& unit : units) unit.shard = half;
  units[2].shard = 10 * half;
  const auto buckets = make_buckets(units, {0, 1, 2, 3, 4}, world, 1'000'000'000, 8);
  std::vector<std::size_t> counts;
  for (const Bucket& bucket : buckets) counts.push_back(bucket.count());
  EXPECT_EQ(counts, (std::vector<std::size_t>{2 * half, 10 * half, 2 * half}));
}

TEST(GradientOrder, PutsATiedEmbeddingLast) {
  const std::vector<Layer> layers{{"embedding", {0}}, {"h.0", {1}}, {"head", {2, 0}}};
  EXPECT_EQ(gradient_order(layers, 3), (std::vector<std::size_t>{2, 1, 0}));
}

TEST(Partition, RoundsShardsTo16BytesOfTheComputeDtype) {
  const std::vector<Unit> units{layout_unit("a", {{"w", {1}, {}}}),
                                layout_unit("b", {{"w", {101, 7}, {}}})};
  const auto fp32 = partition_units(units, 3, 1, Dtype::fp32);
  EXPECT_EQ(fp32[0].flat, 64U);
  EXPECT_EQ(fp32[0].parameters, 1U);
  EXPECT_EQ(fp32[0].shard, 24U);  // ceil(64 / 3) = 22 -> 24
  const auto bf16 = partition_units(units, 6, 2, Dtype::bf16);
  EXPECT_EQ(bf16[1].flat, 768U);
  EXPECT_EQ(bf16[1].shard, 128U);
  EXPECT_EQ(bf16[0].shard, 16U);  // ceil(64 / 6) = 11 -> 16
  EXPECT_EQ(bf16[0].secondary, 48U);
}

/// Gaps lie between tensors, and from the end of the last tensor to the end of the padded buffer.
/// There are none where tensors fill the buffer.
TEST(Partition, GapsAreWhatNoTensorCovers) {
  const std::vector<Unit> units{
      layout_unit("a", {{"v", {1}, {}}, {"w", {8, 16}, {}}, {"x", {65}, {}}}),
      layout_unit("b", {{"v", {64}, {}}, {"w", {4, 32}, {}}})};
  const auto extents = [](const std::vector<Extent>& gaps) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (const Extent& gap : gaps) pairs.emplace_back(gap.begin, gap.count);
    return pairs;
  };
  using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  const auto alone = partition_units(units, 1, 1, Dtype::fp32);
  EXPECT_EQ(extents(alone[0].gaps), (Pairs{{1, 63}, {257, 63}}));
  EXPECT_EQ(extents(alone[1].gaps), (Pairs{}));
  const auto five = partition_units(units, 5, 1, Dtype::fp32);  // 192 / 5 = 38.4 -> 40
  EXPECT_EQ(extents(five[1].gaps), (Pairs{{192, 8}}));
}

TEST(StateMemory, MatchesZeROsFormulas) {
  std::vector<UnitPartition> units{{1000, 1024, 256, 1024, 512}};
  units[0].secondary_dtype = Dtype::bf16;
  const auto bytes = [&](int stage, std::size_t states = 2) {
    std::map<std::string, std::size_t> by_name;
    for (const MemoryPart& part : state_memory(units, stage_preset(stage), Dtype::bf16, states))
      by_name[part.name] = part.bytes;
    return by_name;
  };
  EXPECT_EQ(bytes(0)["master"], 4096U);
  EXPECT_EQ(bytes(0)["local_gradients"], 4096U);
  EXPECT_EQ(bytes(1)["moments"], 2048U);
  EXPECT_EQ(bytes(1, 1)["moments"], 1024U);
  EXPECT_EQ(bytes(0, 0)["moments"], 0U);
  EXPECT_EQ(bytes(1)["resident_weights"], 2048U);
  EXPECT_EQ(bytes(2)["local_gradients"], 0U);
  EXPECT_EQ(bytes(3)["resident_weights"], 0U);
  EXPECT_EQ(bytes(3)["secondary"], 1024U);
  rail_copies(units, 2, Dtype::fp32);
  EXPECT_EQ(bytes(3)["secondary"], 2048U);
  EXPECT_EQ(bytes(3).count("offloaded_secondary"), 0U);
  units[0].secondary_on_host = true;
  EXPECT_EQ(bytes(3)["secondary"], 0U);
  EXPECT_EQ(bytes(3)["offloaded_secondary"], 2048U);
  EXPECT_TRUE(is_offloaded("offloaded_secondary"));
}

/// Held memory is found by its name, in any order; no name may be missing on either side.
TEST(StateMemory, IsComparedByName) {
  const std::vector<MemoryPart> predicted{{"master", 8}, {"moments", 16}, {"secondary", 0}};
  const HeldMemory held{{"secondary", 0}, {"moments", 17}, {"master", 8}, {"unused", 0}};
  const std::vector<MemoryReport> reports = compare_memory(predicted, held);
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].name, "master");
  EXPECT_EQ(reports[0].actual, 8U);
  EXPECT_EQ(reports[1].name, "moments");
  EXPECT_EQ(reports[1].predicted, 16U);
  EXPECT_EQ(reports[1].actual, 17U);
  HeldMemory more = held;
  more["unused"] = 1;
  EXPECT_THROW((void)compare_memory(predicted, more), std::logic_error);
  HeldMemory less = held;
  less.erase("secondary");
  EXPECT_THROW((void)compare_memory(predicted, less), std::logic_error);
}

TEST(OwnedShard, BeginsAtTheRanksShardOrIsTheWholeUnit) {
  const UnitPartition unit{1000, 1024, 256, 1024, 512};
  EXPECT_EQ((OwnedShard{true, 3}.begin(unit)), 768U);
  EXPECT_EQ((OwnedShard{false, 3}.begin(unit)), 0U);
}

}  // namespace
}  // namespace zeropp::zero

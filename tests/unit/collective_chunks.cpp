// ctest: name=collective_chunks labels=sanitize
// Chunks cover every part once, keep their multiples, and their wire images add up to the whole
// part's: for every codec, count and depth.
#include <gtest/gtest.h>

#include "kernels/codec/codec.hpp"
#include "lib/collective/chunks.hpp"

namespace zeropp::collective {
namespace {

TEST(Chunks, AddUpToTheWhole) {
  for (const auto& info : codec::formats()) {
    for (const Dtype plain : {Dtype::fp32, Dtype::bf16}) {
      const codec::Codec codec(codec::parse_codec(info.name), plain);
      for (const std::size_t block : {codec.block(), 2 * codec.block()}) {
        for (const std::size_t count : {0U, 1U, 7U, 8U, 2047U, 2048U, 2049U, 30000U, 150771U}) {
          for (const std::size_t depth : {1U, 2U, 3U, 7U, 1000U}) {
            // Refused: `collective_registry`.
            if (codec.scales_images() && depth > 1) continue;
            const auto plan = chunk_plan(count, depth, block);
            EXPECT_LE(plan.size(), depth);
            EXPECT_EQ(plan.empty(), count == 0);
            std::size_t next = 0;
            std::size_t part_bytes = 0;
            std::size_t three_slices = 0;
            for (const Chunk& chunk : plan) {
              ASSERT_EQ(chunk.first, next);
              ASSERT_EQ(chunk.first % chunk_quantum(block), 0U);
              ASSERT_GT(chunk.length, 0U);
              next += chunk.length;
              part_bytes += codec.wire_bytes(chunk.length);
              three_slices += codec.wire_bytes(3 * round_up(chunk.length, block));
            }
            EXPECT_EQ(next, count);
            EXPECT_EQ(part_bytes, codec.wire_bytes(count)) << info.name << " " << count;
            EXPECT_EQ(three_slices, codec.wire_bytes(3 * round_up(count, block)));
          }
        }
      }
    }
  }
}

TEST(Chunks, AreOfNearlyEqualLength) {
  const auto plan = chunk_plan(100 * chunk_quantum(32), 7, 32);
  ASSERT_EQ(plan.size(), 7U);
  for (const Chunk& chunk : plan) {
    EXPECT_GE(chunk.length, 14 * chunk_quantum(32));
    EXPECT_LE(chunk.length, 15 * chunk_quantum(32));
  }
}

TEST(WorkspacePlan, HandsOutDisjointAlignedRanges) {
  WorkspacePlan space;
  EXPECT_EQ(space.reserve(1), 0U);
  EXPECT_EQ(space.reserve(0), 256U);
  EXPECT_EQ(space.reserve(257), 256U);
  EXPECT_EQ(space.bytes(), 768U);
}

}  // namespace
}  // namespace zeropp::collective

// ctest: name=comm_lanes labels=unit
// A message in slices: nothing lost, nothing twice, short ones whole.
#include <gtest/gtest.h>

#include <random>

#include "lib/comm/lanes.hpp"

namespace zeropp::comm {
namespace {

TEST(Lanes, SlicesFollowEachOtherAndCoverTheMessage) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t lanes = 1 + random() % 9;
    const std::size_t bytes = random() >> (24 + random() % 40);
    std::size_t next = 0;
    for (std::size_t index = 0; index < lanes; ++index) {
      const Slice slice = slice_of(bytes, lanes, index);
      ASSERT_EQ(slice.first, next) << bytes << " bytes, lane " << index << " of " << lanes;
      next += slice.bytes;
      ASSERT_TRUE(next == bytes || slice.bytes % kLaneQuantum == 0) << bytes;
    }
    ASSERT_EQ(next, bytes) << lanes << " lanes";
  }
}

TEST(Lanes, ShortMessagesStayWholeAndLongOnesAreShared) {
  EXPECT_EQ(slice_of(kLaneQuantum, 4, 0).bytes, kLaneQuantum);
  EXPECT_EQ(slice_of(kLaneQuantum, 4, 1).bytes, 0U);
  EXPECT_EQ(slice_of(kLaneQuantum + 1, 4, 1).bytes, 1U);
  for (std::size_t index = 0; index < 4; ++index) {
    EXPECT_EQ(slice_of(8 * kLaneQuantum, 4, index).bytes, 2 * kLaneQuantum);
  }
  EXPECT_EQ(slice_of(0, 4, 0).bytes, 0U);
}

}  // namespace
}  // namespace zeropp::comm

// ctest: name=comm_staging_pool timeout=30 labels=sanitize
// Staging memory is lent, kept and lent again.
#include <gtest/gtest.h>

#include "lib/comm/staging_pool.hpp"

namespace zeropp::comm {
namespace {

TEST(StagingPool, LendsTheSmallestBlockThatFits) {
  StagingPool pool(MemoryKind::host);
  auto small = pool.take(5000);
  auto large = pool.take(100000);
  const std::byte* const small_data = small.memory.data();
  const std::byte* const large_data = large.memory.data();
  EXPECT_GE(small.memory.bytes(), 5000U);
  EXPECT_GE(large.memory.bytes(), 100000U);
  EXPECT_NE(small_data, large_data);
  pool.give_back(std::move(large));
  pool.give_back(std::move(small));
  auto first = pool.take(8000);
  EXPECT_EQ(first.memory.data(), small_data) << "8000 bytes are of the size of 5000";
  auto second = pool.take(1);
  EXPECT_EQ(second.memory.data(), large_data) << "an idle block that fits is not passed over";
  auto third = pool.take(1);
  EXPECT_NE(third.memory.data(), small_data);
  EXPECT_NE(third.memory.data(), large_data);
}

TEST(StagingPool, LargeBlocksAreNotDoubled) {
  StagingPool pool(MemoryKind::host);
  constexpr std::size_t kBytes = (std::size_t{65} << 20U) + 1;
  EXPECT_EQ(pool.take(kBytes).memory.bytes(), std::size_t{128} << 20U);
}

}  // namespace
}  // namespace zeropp::comm

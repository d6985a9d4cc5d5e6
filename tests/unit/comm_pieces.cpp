// ctest: name=comm_pieces labels=sanitize
// Lengths beyond what an int counts, as calls of MPI that it can: no memory is needed to see that.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "lib/comm/pieces.hpp"

namespace zeropp::comm {
namespace {

void expect_whole(std::size_t total, std::size_t most) {
  std::size_t end = 0;
  std::size_t pieces = 0;
  in_pieces(total, most, [&](std::size_t first, int count) {
    ASSERT_EQ(first, end);
    ASSERT_GE(count, 1);
    ASSERT_LE(static_cast<std::size_t>(count), most);
    end += static_cast<std::size_t>(count);
    ++pieces;
  });
  EXPECT_EQ(end, total) << most;
  EXPECT_EQ(pieces, ceil_div(total, most)) << "no more than there have to be";
}

TEST(Pieces, AreTheWholeAcrossTheLimitsOfCounts) {
  constexpr std::size_t kInt = std::size_t{1} << 31U;
  for (const std::size_t limit :
       {std::size_t{1}, kInt, 2 * kInt, 4 * kInt, std::size_t{1} << 40U}) {
    for (const std::size_t total : {limit - 1, limit, limit + 1}) {
      for (const std::size_t most : {kInt / 8, kInt / 2 - 1, kInt - 1}) expect_whole(total, most);
    }
  }
  for (std::size_t total = 0; total < 20; ++total) {
    for (std::size_t most = 1; most < 22; ++most) expect_whole(total, most);
  }
}

TEST(Pieces, ThatNoIntCountsAreRefused) {
  const auto call = [](std::size_t total, std::size_t most) {
    in_pieces(total, most, [](std::size_t, int) {});
  };
  constexpr std::size_t kInt = std::numeric_limits<int>::max();
  EXPECT_THROW(call(kInt + 1, kInt + 1), Error);
  EXPECT_NO_THROW(call(kInt + 1, kInt));
}

}  // namespace
}  // namespace zeropp::comm

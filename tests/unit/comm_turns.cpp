// ctest: name=comm_turns timeout=60 labels=sanitize
// Threads that take turns: one runs at a time, and all end where one fails or all wait. The test
// comm_turns_tsan is this file under the thread sanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "lib/comm/turns.hpp"

namespace zeropp::comm {
namespace {

constexpr std::size_t kThreads = 8;

TEST(Turns, OneThreadRunsUntilItWaits) {
  constexpr int kRounds = 200;
  std::vector<int> posted(kThreads, 0);
  int together = 0;  // not atomic: no two threads run at once
  Turns turns(kThreads);
  turns.run([&](std::size_t index) {
    for (int round = 1; round <= kRounds; ++round) {
      ++together;
      posted[index] = round;
      turns.wait(index, [&] {
        return std::ranges::all_of(posted, [&](int other) { return other >= round; });
      });
    }
  });
  EXPECT_EQ(together, kRounds * static_cast<int>(kThreads));
}

TEST(Turns, OneFailureEndsAllAtTheirNextWait) {
  Turns turns(kThreads);
  std::size_t begun = 0;
  std::size_t after = 0;
  EXPECT_THROW(turns.run([&](std::size_t index) {
    ++begun;
    if (index == 3) throw std::runtime_error("of thread 3");
    turns.wait(index, [] { return false; });
    ++after;
  }),
               std::runtime_error);
  EXPECT_EQ(begun, 4U) << "threads after the failure do not begin";
  EXPECT_EQ(after, 0U);
}

TEST(Turns, WaitsThatNobodyEndsAreAnError) {
  Turns turns(kThreads);
  EXPECT_THROW(turns.run([&](std::size_t index) {
    if (index > 0) turns.wait(index, [] { return false; });
  }),
               std::logic_error);
}

}  // namespace
}  // namespace zeropp::comm

// ctest: name=base_in_parallel labels=sanitize
// Calls of several threads: results are in the order of the calls, and so is what is thrown.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "lib/base/in_parallel.hpp"

namespace zeropp {
namespace {

TEST(InParallel, ResultsAreInOrderWhoeverEndsFirst) {
  EXPECT_TRUE(in_parallel(0, [](std::size_t i) { return i; }).empty());
  const std::vector<std::string> made = in_parallel(100, [](std::size_t i) {
    if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return std::to_string(i);
  });
  ASSERT_EQ(made.size(), 100U);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], std::to_string(i));
}

TEST(InParallel, ThrowsWhatTheFirstCallThrowsAfterAllHaveEnded) {
  std::atomic<std::size_t> ended = 0;
  const auto call = [&](std::size_t i) {
    if (i == 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++ended;
    if (i >= 3) throw std::runtime_error(std::to_string(i));
    return i;
  };
  try {
    (void)in_parallel(8, call);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "3");
  }
  EXPECT_EQ(ended, 8U);
}

}  // namespace
}  // namespace zeropp

// ctest: name=comm_call_watch timeout=30 labels=sanitize
// A call that does not return in time is seen by the watch, one that does is not.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

#include "lib/base/error.hpp"
#include "lib/comm/call_watch.hpp"

namespace zeropp::comm {
namespace {

TEST(CallWatch, SeesWhatIsLate) {
  std::promise<std::string> late;
  CallWatch::on_late([&](const std::string& line) { late.set_value(line); });
  const std::function<std::string()> describe = [] { return std::string("the call"); };
  const CallWatch watch(Seconds{0.01}, describe);
  EXPECT_EQ(late.get_future().get(), "the call");
  CallWatch::on_late({});
}

TEST(CallWatch, LeavesWhatIsInTimeAlone) {
  std::promise<std::string> late;
  CallWatch::on_late([&](const std::string& line) { late.set_value(line); });
  const std::function<std::string()> early = [] { return std::string("early"); };
  const std::function<std::string()> tardy = [] { return std::string("tardy"); };
  // The deadline of what has ended never comes; the next call's does.
  { const CallWatch watch(Seconds{0.01}, early); }
  const CallWatch watch(Seconds{0.02}, tardy);
  EXPECT_EQ(late.get_future().get(), "tardy");
  CallWatch::on_late({});
}

TEST(CallWatchDeathTest, EndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::function<std::string()> describe = [] { return std::string("rank 3 hangs"); };
  EXPECT_EXIT(
      {
        const CallWatch watch(Seconds{0.01}, describe);
        std::promise<void>().get_future().wait_for(std::chrono::seconds(20));
      },
      testing::ExitedWithCode(static_cast<int>(ExitCode::watchdog)), "zeropp: rank 3 hangs");
}

}  // namespace
}  // namespace zeropp::comm

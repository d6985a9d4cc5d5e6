// ctest: name=comm_orderly_end timeout=30 labels=sanitize
// Deadlines of host-side waits, and how a communicator ends, with calls that fail, hang or are
// slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/comm/orderly_end.hpp"

namespace zeropp::comm {
namespace {

using testing::ElementsAre;

constexpr Seconds kShort{0.02};
constexpr Seconds kLong{20.0};

TEST(Poll, EndsWithTheFirstAnswerThatIsNotPending) {
  int asked = 0;
  EXPECT_EQ(poll([&](Seconds) { return ++asked < 3 ? Progress::pending : Progress::done; }, kLong),
            Progress::done);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(poll([](Seconds) { return Progress::failed; }, kLong), Progress::failed);
}

TEST(Poll, StopsAtTheDeadlineAndAsksAtLeastOnce) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(poll([](Seconds) { return Progress::pending; }, kShort), Progress::pending);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kShort);
  EXPECT_EQ(poll([](Seconds) { return Progress::done; }, Seconds{0}), Progress::done);
}

/// The calls, in order. The log is shared with the threads that call.
struct Log {
  void add(const std::string& call) {
    const std::lock_guard lock(mutex);
    calls.push_back(call);
  }
  std::vector<std::string> taken() {
    const std::lock_guard lock(mutex);
    return calls;
  }
  std::mutex mutex;
  std::vector<std::string> calls;
};

class End : public testing::Test {
 protected:
  std::function<bool()> finish() {
    return [log = log_, succeeds = succeeds] {
      log->add("finish");
      return succeeds;
    };
  }
  ForcedEnd forced() {
    return {.aborts = {[log = log_] { log->add("abort"); }},
            .give_up = [this] { log_->add("give up"); }};
  }
  /// Waits until the test is over.
  void hang(const char* call) {
    log_->add(call);
    release_.get_future().wait();
    ended_.set_value();
  }
  void let_go() {
    release_.set_value();
    ended_.get_future().wait();
  }

  bool succeeds = true;
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
  std::promise<void> release_;
  std::promise<void> ended_;
};

TEST_F(End, IsOrderly) {
  end_orderly(finish(), kLong, forced(), kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finish"));
}

TEST_F(End, AbortsAfterAFailure) {
  succeeds = false;
  end_orderly(finish(), kLong, forced(), kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finish", "abort"));
}

TEST_F(End, AbortsWhenFinishingHangs) {
  const auto hanging = [this] {
    hang("finish");
    return true;
  };
  end_orderly(hanging, kShort, forced(), kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finish", "abort"));
  let_go();
}

TEST_F(End, AbortsCommunicatorsThatWaitForEachOther) {
  ForcedEnd both = forced();
  const auto met = std::make_shared<std::barrier<>>(2);
  const auto abort = [met, log = log_] {
    met->arrive_and_wait();
    log->add("abort");
  };
  both.aborts = {abort, abort};
  end_by_force(both, kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("abort", "abort"));
}

TEST_F(End, GivesUpWhenAnAbortHangs) {
  ForcedEnd hanging = forced();
  hanging.aborts = {[this] { hang("abort"); }};
  end_by_force(hanging, kShort);
  EXPECT_THAT(log_->taken(), ElementsAre("abort", "give up"));
  let_go();
}

}  // namespace
}  // namespace zeropp::comm

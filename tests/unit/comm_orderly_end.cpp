// ctest: name=comm_orderly_end timeout=30 labels=sanitize
// Deadlines of host-side waits, and how a communicator ends, with calls that fail, hang or are
// slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

/// What was called, in order. Shared with the thread that aborts.
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
  EndCalls calls() {
    return {.finalize = [this] { return answer("finalize", finalize); },
            .state = [this] { return answer("state", state); },
            .destroy = [this] { return answer("destroy", destroy); },
            .abort = [log = log_] { log->add("abort"); },
            .give_up = [this] { log_->add("give up"); }};
  }
  Progress answer(const char* call, Progress progress) {
    if (log_->taken().empty() || log_->taken().back() != call) log_->add(call);
    return progress;
  }

  Progress finalize = Progress::pending;
  Progress state = Progress::done;
  Progress destroy = Progress::done;
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
};

TEST_F(End, IsOrderly) {
  end_orderly(calls(), kLong, kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finalize", "state", "destroy"));
}

TEST_F(End, DoesNotPollWhatIsDone) {
  finalize = Progress::done;
  end_orderly(calls(), kLong, kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finalize", "destroy"));
}

TEST_F(End, AbortsAfterAFailure) {
  finalize = Progress::failed;
  end_orderly(calls(), kLong, kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finalize", "abort"));
}

TEST_F(End, AbortsAfterAFailureThatComesLater) {
  state = Progress::failed;
  end_orderly(calls(), kLong, kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finalize", "state", "abort"));
}

TEST_F(End, AbortsWhenFinalisingHangs) {
  state = Progress::pending;
  end_orderly(calls(), kShort, kLong);
  EXPECT_THAT(log_->taken(), ElementsAre("finalize", "state", "abort"));
}

TEST_F(End, GivesUpWhenAbortingHangs) {
  auto release = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  EndCalls hanging = calls();
  hanging.abort = [log = log_, release, ended] {
    log->add("abort");
    release->get_future().wait();
    ended->set_value();
  };
  end_by_force(hanging, kShort);
  EXPECT_THAT(log_->taken(), ElementsAre("abort", "give up"));
  release->set_value();
  ended->get_future().wait();
}

}  // namespace
}  // namespace zeropp::comm

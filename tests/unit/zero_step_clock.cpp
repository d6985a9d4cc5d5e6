// ctest: name=zero_step_clock labels=sanitize
// The times of a step: phases, waits, and work that overlaps itself counted once.
#include <gtest/gtest.h>

#include <chrono>

#include "lib/device/device.hpp"
#include "lib/zero/engine/step_clock.hpp"

namespace zeropp::zero {
namespace {

using Work = StepClock::Work;
using Clock = std::chrono::steady_clock;

/// Keeps the processor busy until its clock has moved by a fifth of a millisecond.
void spin() {
  const auto until = Clock::now() + std::chrono::microseconds(200);
  while (Clock::now() < until) {
  }
}
constexpr double kSpin = 200e-6;

double seconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class StepClockTest : public testing::Test {
 protected:
  Stream stream_ = Device::host().make_stream("compute");
  StepClock clock_;
};

TEST_F(StepClockTest, PhasesAndWaits) {
  clock_.begin();
  clock_.origin(stream_);
  const auto begin = Clock::now();
  clock_.phase(stream_, false);
  spin();
  clock_.phase(stream_, false);
  clock_.phase(stream_, true);
  clock_.waiting(stream_, spin);
  clock_.end(stream_);
  const double all = seconds(begin);
  const StepClock::Times times = clock_.times();
  EXPECT_GE(times.forward, kSpin);
  EXPECT_GE(times.backward, times.exposed);
  EXPECT_GE(times.exposed, kSpin);
  EXPECT_LE(times.forward + times.backward, all);
  EXPECT_EQ(times.gather + times.reduce + times.update, 0);
}

TEST_F(StepClockTest, WorkAtOnceCountsOnce) {
  clock_.begin();
  clock_.origin(stream_);
  const auto begin = Clock::now();
  clock_.working(Work::gather, stream_, [&] {
    spin();
    clock_.working(Work::gather, stream_, spin);
    clock_.working(Work::reduce, stream_, spin);
  });
  clock_.working(Work::update, stream_, spin);
  clock_.working(Work::update, stream_, spin);
  clock_.end(stream_);
  const double all = seconds(begin);
  const StepClock::Times times = clock_.times();
  EXPECT_GE(times.gather, 3 * kSpin);
  EXPECT_GE(times.reduce, kSpin);
  EXPECT_LE(times.reduce, times.gather);
  EXPECT_GE(times.update, 2 * kSpin);
  EXPECT_LE(times.gather + times.update, all);
}

TEST_F(StepClockTest, BeginForgets) {
  for (int step = 0; step < 2; ++step) {
    clock_.begin();
    clock_.origin(stream_);
    clock_.phase(stream_, false);
    if (step == 0) clock_.working(Work::gather, stream_, spin);
    clock_.end(stream_);
  }
  EXPECT_EQ(clock_.times().gather, 0);
  EXPECT_EQ(clock_.times().exposed, 0);
}

}  // namespace
}  // namespace zeropp::zero

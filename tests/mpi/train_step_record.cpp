// ctest: name=train_step_record np=1,3,4 timeout=60 labels=sanitize
// The record of a step: one all-gather gives the bits of a separate sum of losses, sum of bytes and
// maximum of times.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lib/train/step_record.hpp"
#include "tests/support/mpi_world.hpp"

namespace zeropp::train {
namespace {

/// Counts what a control plane is asked for.
class CountedControl final : public comm::Control {
 public:
  explicit CountedControl(comm::Control& control) : control_(control) {}
  [[nodiscard]] int calls() const { return calls_; }

  [[nodiscard]] int rank() const override { return control_.rank(); }
  [[nodiscard]] int size() const override { return control_.size(); }
  void barrier() override { counted().barrier(); }
  void all_reduce_sum(std::span<double> values) override { counted().all_reduce_sum(values); }
  void all_reduce_sum(std::span<std::uint64_t> values) override {
    counted().all_reduce_sum(values);
  }
  void all_reduce_max(std::span<double> values) override { counted().all_reduce_max(values); }
  [[nodiscard]] std::vector<double> all_gather(std::span<const double> part) override {
    return counted().all_gather(part);
  }
  [[nodiscard]] std::vector<std::uint64_t> all_gather(
      std::span<const std::uint64_t> part) override {
    return counted().all_gather(part);
  }
  [[nodiscard]] std::vector<std::string> gather(const std::string& part) override {
    return counted().gather(part);
  }
  [[nodiscard]] std::string broadcast(const std::string& text) override {
    return counted().broadcast(text);
  }

 private:
  comm::Control& counted() {
    ++calls_;
    return control_;
  }

  comm::Control& control_;
  int calls_ = 0;
};

class Records : public testing::Test {
 protected:
  StepRecord drawn() {
    std::uniform_real_distribution<double> real(0.1, 9);
    std::uniform_int_distribution<std::uint64_t> bytes(0, std::uint64_t{1} << 49U);
    return {.loss = real(random_),
            .sent = {bytes(random_), bytes(random_)},
            .predicted = {bytes(random_), bytes(random_)},
            .interrupt = 0,
            .times = {real(random_), real(random_), real(random_), real(random_), real(random_),
                      real(random_), real(random_), real(random_), real(random_)}};
  }

  comm::Control& control_ = test::world().control();
  std::mt19937_64 random_{static_cast<std::uint64_t>(control_.rank()) + 1};
};

TEST_F(Records, HaveTheBitsOfSumsAndMaximaOneByOne) {
  for (int round = 0; round < 50; ++round) {
    StepRecord own = drawn();
    if (round % 5 == 4 && control_.rank() == round % control_.size()) {
      own.times.reduce = std::numeric_limits<double>::quiet_NaN();
      own.loss = std::numeric_limits<double>::infinity();
    }
    CountedControl counted(control_);
    const StepRecord all = over_ranks(own, counted);
    EXPECT_EQ(counted.calls(), 1);

    std::array<double, 1> loss{own.loss};
    control_.all_reduce_sum(loss);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(all.loss), std::bit_cast<std::uint64_t>(loss[0]));
    std::array<std::uint64_t, 4> bytes{own.sent.intra, own.sent.inter, own.predicted.intra,
                                       own.predicted.inter};
    control_.all_reduce_sum(bytes);
    EXPECT_EQ(all.sent.intra, bytes[0]);
    EXPECT_EQ(all.sent.inter, bytes[1]);
    EXPECT_EQ(all.predicted.intra, bytes[2]);
    EXPECT_EQ(all.predicted.inter, bytes[3]);
    const auto listed = [](const StepRecord::Times& t) {
      return std::array{t.step,   t.forward,          t.backward,       t.exposed,      t.gather,
                        t.reduce, t.optimizer_before, t.offload_before, t.gather_before};
    };
    auto largest = listed(own.times);
    control_.all_reduce_max(largest);
    const auto times = listed(all.times);
    for (std::size_t i = 0; i < times.size(); ++i) {
      EXPECT_TRUE(times.at(i) == largest.at(i) ||
                  (std::isnan(times.at(i)) && std::isnan(largest.at(i))))
          << i << ": " << times.at(i) << " and " << largest.at(i);
    }
  }
}

TEST_F(Records, TheSignalThatCountsMostReachesAllRanks) {
  const int last = control_.size() - 1;
  for (const auto& [first_rank, last_rank, counts] :
       {std::array{0, 0, 0}, std::array{0, SIGUSR1, SIGUSR1}, std::array{SIGTERM, SIGUSR1, SIGTERM},
        std::array{SIGTERM, SIGINT, SIGINT}}) {
    StepRecord own = drawn();
    if (control_.rank() == 0) own.interrupt = first_rank;
    if (control_.rank() == last) own.interrupt = last_rank;
    EXPECT_EQ(over_ranks(own, control_).interrupt, control_.size() == 1 ? last_rank : counts);
  }
}

}  // namespace
}  // namespace zeropp::train

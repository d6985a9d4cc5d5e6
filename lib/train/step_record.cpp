#include "lib/train/step_record.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include "lib/app/interrupt.hpp"

namespace zeropp::train {
namespace {

using Times = StepRecord::Times;
constexpr std::array kTimes{
    &Times::step,          &Times::forward,   &Times::backward,         &Times::exposed,
    &Times::gather,        &Times::reduce,    &Times::optimizer_before, &Times::offload_before,
    &Times::gather_before, &Times::agreement, &Times::agreement_before};
constexpr std::size_t kBytes = 4;
constexpr std::size_t kLength = 1 + kBytes + 1 + kTimes.size();

std::array<double, kLength> packed(const StepRecord& own) {
  std::array<double, kLength> values{own.loss,
                                     static_cast<double>(own.sent.intra),
                                     static_cast<double>(own.sent.inter),
                                     static_cast<double>(own.predicted.intra),
                                     static_cast<double>(own.predicted.inter),
                                     static_cast<double>(own.interrupt)};
  for (std::size_t i = 0; i < kTimes.size(); ++i) {
    values.at(2 + kBytes + i) = own.times.*kTimes.at(i);
  }
  return values;
}

void add(const double* values, StepRecord& sum) {
  const auto bytes = [&](std::size_t i) { return static_cast<std::uint64_t>(values[1 + i]); };
  sum.loss += values[0];
  sum.sent += {bytes(0), bytes(1)};
  sum.predicted += {bytes(2), bytes(3)};
  sum.interrupt = app::more_pressing(sum.interrupt, static_cast<int>(values[1 + kBytes]));
  for (std::size_t i = 0; i < kTimes.size(); ++i) {
    double& largest = sum.times.*kTimes.at(i);
    const double seconds = values[2 + kBytes + i];
    if (std::isnan(seconds) || seconds > largest) largest = seconds;
  }
}

}  // namespace

StepRecord over_ranks(const StepRecord& own, comm::Control& control) {
  const std::vector<double> all = control.all_gather(packed(own));
  StepRecord together;
  for (std::size_t at = 0; at < all.size(); at += kLength) add(&all[at], together);
  return together;
}

}  // namespace zeropp::train

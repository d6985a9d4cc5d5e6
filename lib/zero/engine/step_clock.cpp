#include "lib/zero/engine/step_clock.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace zeropp::zero {

StepClock::Times StepClock::times() const {
  Times times;
  for (std::size_t i = 0; i < phases_used_; ++i) {
    const Mark& end = i + 1 < phases_used_ ? phases_[i + 1].begin : end_;
    (phases_[i].backward ? times.backward : times.forward) += end.seconds_since(phases_[i].begin);
  }
  for (std::size_t i = 0; i < waits_used_; ++i) {
    times.exposed += pauses_[i].end.seconds_since(pauses_[i].begin);
  }
  times.gather = covered(Work::gather);
  times.reduce = covered(Work::reduce);
  times.update = covered(Work::update);
  times.agreement = covered(Work::agreement);
  return times;
}

double StepClock::covered(Work work) const {
  const std::deque<Interval>& intervals = work_.at(static_cast<std::size_t>(work));
  std::vector<std::pair<double, double>> spans;  // since the origin
  for (std::size_t i = 0; i < work_used_.at(static_cast<std::size_t>(work)); ++i) {
    spans.emplace_back(intervals[i].begin.seconds_since(origin_),
                       intervals[i].end.seconds_since(origin_));
  }
  std::ranges::sort(spans);
  double sum = 0;
  double reached = 0;
  for (const auto& [begin, end] : spans) {
    sum += std::max(0.0, end - std::max(begin, reached));
    reached = std::max(reached, end);
  }
  return sum;
}

}  // namespace zeropp::zero

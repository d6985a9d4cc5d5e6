#include "lib/zero/step_clock.hpp"

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
  return times;
}

}  // namespace zeropp::zero

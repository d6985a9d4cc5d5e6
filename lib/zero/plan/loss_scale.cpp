#include "lib/zero/plan/loss_scale.hpp"

#include <algorithm>
#include <cmath>

namespace zeropp::zero {

LossScale::LossScale(const LossScaleOptions& options) : options_(options) {
  const bool fixed = options.fixed > 0;
  state_.scale = fixed ? options.fixed : std::ldexp(1.0, static_cast<int>(options.initial_power));
  state_.overflows_left = fixed ? 1 : options.hysteresis;
}

bool LossScale::update(bool overflow) {
  if (options_.fixed > 0) return true;
  if (overflow) return halve();
  grow();
  return true;
}

bool LossScale::halve() {
  if (state_.overflows_left > 1) {
    --state_.overflows_left;
  } else if (state_.scale <= options_.minimum) {
    return false;
  } else {
    // Overflows that follow at once halve again: only clean steps give the hysteresis back.
    state_.scale = std::max(state_.scale / 2, options_.minimum);
  }
  state_.clean_steps = 0;
  return true;
}

void LossScale::grow() {
  if (options_.consecutive_hysteresis) state_.overflows_left = options_.hysteresis;
  if (++state_.clean_steps < options_.window) return;
  state_.clean_steps = 0;
  state_.overflows_left = options_.hysteresis;
  state_.scale = std::min(2 * state_.scale, kLargestLossScale);
}

}  // namespace zeropp::zero

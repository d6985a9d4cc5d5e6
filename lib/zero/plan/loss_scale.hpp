// The factor that a loss is multiplied by before its backward, so that small gradients do not
// vanish in fp16, and when it changes: a state machine that is told of each step whether its
// gradients overflowed. Fixed, or dynamic with the keys and the rules of DeepSpeed's `fp16` object:
//
//   overflow     the first `hysteresis` - 1 of them only count; each further one halves the scale,
//                down to `minimum`. One at the minimum ends the training.
//   no overflow  after `window` steps in a row without one the scale doubles, and again after as
//                many more; with that the count of overflows begins anew, and with
//                `consecutive_hysteresis` it does so after every step without one.
//
// Owns nothing and knows no gradient: the same calls give the same scale on every rank.
// Source: mixed-precision training (Micikevicius et al., arXiv 1710.03740).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/core/dtype.hpp"

namespace zeropp::zero {

/// DeepSpeed's keys and defaults in the object `fp16`.
struct LossScaleOptions {
  double fixed = 0;                ///< loss_scale; 0: dynamic
  std::size_t initial_power = 16;  ///< initial_scale_power: begins at 2 to this power
  std::size_t window = 1000;       ///< loss_scale_window, steps, at least 1
  std::size_t hysteresis = 2;      ///< overflows until the scale is halved, at least 1
  double minimum = 1;              ///< min_loss_scale, above 0
  bool consecutive_hysteresis = false;

  bool operator==(const LossScaleOptions&) const = default;
};

/// Largest scale that a run grows to: what would need more is zero in fp16, and 1 / scale stays a
/// normal fp32.
inline constexpr double kLargestLossScale = 0x1p64;

class LossScale {
 public:
  /// State that changes, which a checkpoint keeps.
  struct State {
    double scale = 1;
    std::uint64_t overflows_left = 1;  ///< until the scale is halved, that one included
    std::uint64_t clean_steps = 0;     ///< since the latest overflow or doubling
    bool operator==(const State&) const = default;
  };

  explicit LossScale(const LossScaleOptions& options);

  [[nodiscard]] bool is_dynamic() const { return options_.fixed == 0; }
  /// Scale of the loss of the step that comes, or runs.
  [[nodiscard]] double value() const { return state_.scale; }
  /// A step is over. False where the scale had to fall and was at the minimum: the state stays.
  [[nodiscard]] bool update(bool overflow);

  [[nodiscard]] const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  bool halve();
  void grow();

  LossScaleOptions options_;
  State state_;
};

/// Largest magnitude of each of `terms` values whose sum fp16 can carry: codecs saturate, and a
/// loss scale that is too large must make a value infinite, so that the step is skipped. Nothing
/// where `compute` is another dtype: fp32 and bf16 carry every sum.
constexpr std::optional<float> largest_fp16_term(Dtype compute, std::size_t terms) {
  constexpr float kLargestFp16 = 65504.0F;
  if (compute != Dtype::fp16) return std::nullopt;
  return kLargestFp16 / static_cast<float>(terms);
}

}  // namespace zeropp::zero

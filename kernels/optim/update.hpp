// One step of an optimizer over many arrays of parameters: what it is given, whichever optimizer
// and back end runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/core/dtype.hpp"
#include "kernels/core/macros.hpp"
#include "kernels/core/stream.hpp"
#include "kernels/optim/options.hpp"

namespace zeropp::optim {

/// Moments that an optimizer keeps for a parameter, at most.
inline constexpr std::size_t kMostStates = 2;

/// Length of the pieces of an update: long enough that a piece's traffic hides the start of its
/// thread block, short enough that the parameters of a unit keep all multiprocessors busy.
inline constexpr std::size_t kUpdatePiece = 4096;

/// Parameters that an optimizer treats alike: arrays of `count` elements in the back end's memory.
/// Any alignment that the elements have; the fast one is that of four elements, and a `number` that
/// is a multiple of 4.
struct UpdatePiece {
  const float* gradient;  ///< the sum over ranks and micro-steps
  float* weight;
  void* state[kMostStates];  ///< as Options::moments says; null beyond what the optimizer keeps
  void* narrow;              ///< 16-bit weights that follow `weight`; null without them
  std::uint32_t count;       ///< at most 2^31 - 1
  bool decay;                ///< weight decay applies
  /// Scales of moments in 8 bits, one for each kMomentBlock elements, of which the first begin a
  /// block.
  float* scale[kMostStates] = {};
  /// Number of the first element, the same on whichever rank: what moments in bf16 draw by.
  std::uint64_t number = 0;
};

/// Factors that turn the sum of gradients over ranks and micro-steps into the gradient that the
/// optimizer reads.
struct GradientScale {
  float mean;  ///< 1 / (ranks * micro-steps * loss scale); the loss scale is 1 without fp16
  float clip;  ///< clipping coefficient, of the mean
};

/// Two roundings: the norm that clips is that of the rounded mean.
ZEROPP_HD float scaled(float gradient_sum, const GradientScale& scale) {
  return (gradient_sum * scale.mean) * scale.clip;
}

/// Number of the step, for bias correction and random numbers.
struct Step {
  std::uint64_t t;  ///< 1, 2, ...
  GradientScale scale;
  std::uint64_t draws = 0;  ///< key of the step's draws, for moments in bf16
};

/// One step on all pieces, on the stream. `narrow`: the 16-bit dtype of UpdatePiece::narrow,
/// rounded to nearest and saturating; fp32: there is none. Allocates nothing and throws nothing.
using UpdatePieces = void (*)(const Options&, const Step&, Dtype narrow,
                              std::span<const UpdatePiece>, StreamHandle);

}  // namespace zeropp::optim

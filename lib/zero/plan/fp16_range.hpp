// Range of fp16, which gradients of a run that computes in fp16 must not leave unseen: codecs
// saturate, and a loss scale that is too large must make a value infinite, so that the step is
// skipped.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/core/dtype.hpp"

namespace zeropp::zero {

/// Largest magnitude of each of `terms` values whose sum fp16 can carry. Nothing where `compute` is
/// another dtype: fp32 and bf16 carry every sum.
constexpr std::optional<float> largest_fp16_term(Dtype compute, std::size_t terms) {
  constexpr float kLargestFp16 = 65504.0F;
  if (compute != Dtype::fp16) return std::nullopt;
  return kLargestFp16 / static_cast<float>(terms);
}

}  // namespace zeropp::zero

// The softmax between the products of attention, forward and backward: squares
// [count, length, length] of rows, of which row t counts its columns [0, t].
#pragma once

#include <cstddef>

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::nn::cuda_ops {

/// probabilities = softmax of the scores in the columns that count, zero beyond. scores: fp32;
/// probabilities: any dtype, other memory.
void attention_softmax(std::size_t count, std::size_t length, const float* scores,
                       View probabilities, StreamHandle);

/// dS = P (dP - rowsum(P dP)) in the columns that count, zero beyond. dP: fp32; P and dS: any
/// dtype, other memory.
void attention_softmax_backward(std::size_t count, std::size_t length, ConstView probabilities,
                                const float* d_probabilities, View d_scores, StreamHandle);

}  // namespace zeropp::nn::cuda_ops

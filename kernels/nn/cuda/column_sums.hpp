// Gradients of biases: sums of the columns of a matrix. Two passes over fixed parts in a fixed
// order, so that the bits are those of every run.
#pragma once

#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn::cuda_ops {

/// d_bias[j] = (accumulate ? d_bias[j] : 0) + sum over rows r of dy[r, j]. dy [rows, out] with the
/// shape's stride, any dtype; d_bias [out], fp32 or 16 bits. Partial sums lie in the context's
/// workspace, cuda_sizes::column_sums_workspace() elements of it. Views have been checked but for
/// the workspace, which throws std::invalid_argument.
void column_sums(const NnContext&, const LinearShape&, ConstView dy, bool accumulate, View d_bias);

}  // namespace zeropp::nn::cuda_ops

// Operations that follow a product where cuBLASLt does not do them itself: bias and GELU, element
// by element in fp32, each result rounded to the views' dtype. The callers have checked the views.
#pragma once

#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn::cuda_ops {

/// y[r, j] += bias[j]
void add_bias(StreamHandle, const LinearShape&, ConstView bias, View y);
/// y[r, j] = gelu(pre[r, j]); both rows as far apart as the shape says.
void gelu_forward(StreamHandle, const LinearShape&, ConstView pre, View y);
/// d[i] *= gelu'(pre[i])
void gelu_backward(StreamHandle, std::size_t count, ConstView pre, View d);

}  // namespace zeropp::nn::cuda_ops

// The products of linear layers, also as the ceiling of arithmetic: a large one without epilogue.
#pragma once

#include <string_view>

#include "apps/kernels/kernel.hpp"

namespace zeropp::kernels {

/// Epilogue of a product: what is done to it while it is written.
struct Epilogue {
  std::string_view name;  ///< "bias+residual"
  bool bias = false;
  bool residual = false;
  bool gelu = false;  ///< forward: of the result; backward: the gradient of the input's
};

/// y [rows, out] = x [rows, in] W^T with the epilogue; rows of y `stride` apart.
Problem linear_forward_of(const nn::LinearShape& shape, const Epilogue& epilogue, Dtype compute,
                          const Source& source, const ComputeDevice& device);

/// The gradients of the same layer: two products.
Problem linear_backward_of(const nn::LinearShape& shape, const Epilogue& epilogue, Dtype compute,
                           const Source& source, const ComputeDevice& device);

}  // namespace zeropp::kernels

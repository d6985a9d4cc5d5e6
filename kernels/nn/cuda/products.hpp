// Matrix products of the GPU's operations: cuBLASLt. Sums are fp32, for fp32 inputs with fp32
// products (no TF32). One thread of the process enqueues them.
//
// The algorithm of a product is chosen when the product first occurs and kept for the life of the
// process: by the library's heuristics, or, where the context asks for it, by timing the candidates
// that these name. The heuristics look at nothing but shape, dtypes, strides, epilogue and 16-byte
// alignment, the room for scratch is always the same, and split sums are joined in fp32 in a
// separate pass: equal products give equal bits, in this process and the next. With measured
// choices they do so in one process only: another, or another rank, may choose differently.
#pragma once

#include <cstddef>

#include "kernels/core/dtype.hpp"
#include "kernels/nn/cuda_sizes.hpp"
#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn::cuda_ops {

using cuda_sizes::kProductWorkspace;

/// A row-major matrix inside a larger one: consecutive rows are `stride` elements apart. In a batch
/// it is the first of several, `batch_stride` elements apart.
struct Matrix {
  const void* data = nullptr;
  std::size_t stride = 0;
  bool transposed = false;
  std::size_t batch_stride = 0;
};

/// Operation on a b + c before it is written as d.
enum class Epilogue {
  none,
  bias,       ///< d = a b + c + bias
  gelu_bias,  ///< gelu_input = a b + bias; d = gelu(gelu_input)
  d_gelu      ///< d = (a b) gelu'(gelu_input)
};

/// d [m, n] = alpha a [m, k] b [k, n] + c, with the epilogue; `batch` times.
struct Product {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  Dtype inputs = Dtype::fp32;  ///< of a, b and the bias
  Dtype output = Dtype::fp32;  ///< of c, d and the GELU's input
  Matrix a;
  Matrix b;
  const void* c = nullptr;  ///< null: nothing is added; may be d; rows as far apart as those of d
  void* d = nullptr;
  std::size_t d_stride = 0;
  Epilogue epilogue = Epilogue::none;
  const void* bias = nullptr;        ///< [n]
  const void* gelu_input = nullptr;  ///< [m, n], written by gelu_bias
  std::size_t gelu_stride = 0;       ///< a multiple of 8
  float alpha = 1.0F;
  std::size_t batch = 1;  ///< more than one: without epilogue
  std::size_t d_batch_stride = 0;
};

/// Enqueues the product. False when the library has no algorithm for it; nothing was done then.
/// With NnContext::autotune the first product of its shape waits for the stream and, where c is d,
/// allocates another d meanwhile; without memory for it cuBLASLt's heuristics choose. Throws
/// std::invalid_argument when the workspace is too small, CudaError.
[[nodiscard]] bool try_multiply(const NnContext&, const Product&);
/// Calls try_multiply() for a product that the library must know, or throws CudaError.
void multiply(const NnContext&, const Product&);

}  // namespace zeropp::nn::cuda_ops

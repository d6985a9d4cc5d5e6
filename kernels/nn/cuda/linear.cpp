// Linear layers: products with their bias, residual and GELU in one pass where the library offers
// that, and otherwise a product followed by a pass of ours.
#include <algorithm>
#include <cstdint>

#include "kernels/core/memory_ops.hpp"
#include "kernels/nn/cuda/column_sums.hpp"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/pointwise.hpp"
#include "kernels/nn/cuda/products.hpp"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

/// Elements from the first to the last of y.
std::size_t output_extent(const LinearShape& shape) {
  return shape.rows == 0 ? 0 : (shape.rows - 1) * shape.stride() + shape.out;
}

/// True when cuBLASLt's own GELU may be used on [rows, columns]. Its tanh is an approximation that
/// disappears when bf16 is rounded to, and not in fp32. It wants rows of the GELU's input at
/// multiples of 8 elements, on 16 bytes.
bool fuses_gelu(const ConstView& gelu_input, std::size_t columns, std::size_t stride) {
  return gelu_input.dtype == Dtype::bf16 && columns % 8 == 0 && stride % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(gelu_input.data) % 16 == 0;
}

/// x W^T; the views have been checked.
Product forward_product(const LinearShape& shape, ConstView x, ConstView weight, View y) {
  return {.m = shape.rows,
          .n = shape.out,
          .k = shape.in,
          .inputs = y.dtype,
          .output = y.dtype,
          .a = {x.data, shape.in},
          .b = {weight.data, shape.in, true},
          .d = y.data,
          .d_stride = shape.stride()};
}

void require_forward(const LinearShape& shape, ConstView x, ConstView weight, View y) {
  require(y, output_extent(shape), y.dtype, "linear output");
  require(x, shape.rows * shape.in, y.dtype, "linear input");
  require(weight, shape.in * shape.out, y.dtype, "linear weight");
}

}  // namespace

void linear_forward(const NnContext& context, const LinearShape& shape, ConstView x,
                    ConstView weight, ConstView bias, ConstView residual, View y) {
  require_forward(shape, x, weight, y);
  if (shape.rows == 0) return;  // no matrix of the library's is empty, here and below
  Product product = forward_product(shape, x, weight, y);
  if (residual.count > 0) {
    require(residual, output_extent(shape), y.dtype, "linear residual");
    product.c = residual.data;
  }
  if (bias.count == 0) return multiply(context, product);
  require(bias, shape.out, y.dtype, "linear bias");
  Product with_bias = product;
  with_bias.epilogue = Epilogue::bias;
  with_bias.bias = bias.data;
  if (try_multiply(context, with_bias)) return;
  multiply(context, product);
  add_bias(context.stream, shape, bias, y);
}

void linear_gelu_forward(const NnContext& context, const LinearShape& shape, ConstView x,
                         ConstView weight, ConstView bias, View pre, View y) {
  require_forward(shape, x, weight, y);
  require(pre, output_extent(shape), y.dtype, "gelu input");
  require(bias, shape.out, y.dtype, "linear bias");
  if (shape.rows == 0) return;
  if (fuses_gelu(pre, shape.out, shape.stride())) {
    Product product = forward_product(shape, x, weight, y);
    product.epilogue = Epilogue::gelu_bias;
    product.bias = bias.data;
    product.gelu_input = pre.data;
    product.gelu_stride = shape.stride();
    if (try_multiply(context, product)) return;
  }
  linear_forward(context, shape, x, weight, bias, {}, pre);
  gelu_forward(context.stream, shape, pre, y);
}

void linear_backward(const NnContext& context, const LinearShape& shape, ConstView dy, ConstView x,
                     ConstView weight, ConstView gelu_input, View dx, bool accumulate,
                     View d_weight, View d_bias) {
  require(dy, output_extent(shape), dy.dtype, "linear output gradient");
  require(x, shape.rows * shape.in, dy.dtype, "linear input");
  require(weight, shape.in * shape.out, dy.dtype, "linear weight");
  require(dx, shape.rows * shape.in, dy.dtype, "linear input gradient");
  require(d_weight, shape.in * shape.out, Dtype::fp32, "linear weight gradient");
  if (d_bias.count > 0) require(d_bias, shape.out, Dtype::fp32, "linear bias gradient");
  if (shape.rows == 0) {
    if (accumulate) return;
    for (const View& sum : {d_weight, d_bias}) cuda_memory_ops()->clear(sum, context.stream);
    return;
  }
  if (d_bias.count > 0) column_sums(context, shape, dy, accumulate, d_bias);
  multiply(context, {.m = shape.out,
                     .n = shape.in,
                     .k = shape.rows,
                     .inputs = dy.dtype,
                     .output = Dtype::fp32,
                     .a = {dy.data, shape.stride(), true},
                     .b = {x.data, shape.in},
                     .c = accumulate ? d_weight.data : nullptr,
                     .d = d_weight.data,
                     .d_stride = shape.in});

  const Product to_input{.m = shape.rows,
                         .n = shape.in,
                         .k = shape.out,
                         .inputs = dy.dtype,
                         .output = dy.dtype,
                         .a = {dy.data, shape.stride()},
                         .b = {weight.data, shape.in},
                         .d = dx.data,
                         .d_stride = shape.in};
  if (gelu_input.count == 0) return multiply(context, to_input);
  require(gelu_input, shape.rows * shape.in, dy.dtype, "gelu input");
  if (fuses_gelu(gelu_input, shape.in, shape.in)) {
    Product product = to_input;
    product.epilogue = Epilogue::d_gelu;
    product.gelu_input = gelu_input.data;
    product.gelu_stride = shape.in;
    if (try_multiply(context, product)) return;
  }
  multiply(context, to_input);
  gelu_backward(context.stream, shape.rows * shape.in, gelu_input, dx);
}

std::size_t linear_workspace(const LinearShape& shape, Dtype /*compute*/) {
  return std::max(kProductWorkspace / sizeof(float), column_sums_workspace(shape));
}

}  // namespace zeropp::nn::cuda_ops

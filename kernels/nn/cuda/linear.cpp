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
/// disappears when bf16 is rounded to, and not in fp16 or fp32. It wants rows of the GELU's input
/// at multiples of 8 elements, on 16 bytes.
bool fuses_gelu(const ConstView& gelu_input, std::size_t columns, std::size_t stride) {
  return gelu_input.dtype == Dtype::bf16 && columns % 8 == 0 && stride % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(gelu_input.data) % 16 == 0;
}

/// A range of the columns of y: a linear layer of its own.
struct Columns {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The last columns of y, fewer than 8, that are better multiplied apart: a vocabulary's one. For
/// 16-bit inputs cuBLASLt's fast kernels want every dimension, and every row, at a multiple of 16
/// bytes; its others take seven times as long.
Columns rest_of(const LinearShape& shape, Dtype inputs) {
  constexpr std::size_t kMultiple = 8;
  const std::size_t rest = shape.out % kMultiple;
  const bool gains = size_of(inputs) == 2 && shape.out > kMultiple && shape.in % kMultiple == 0 &&
                     shape.stride() % kMultiple == 0;
  return gains ? Columns{shape.out - rest, rest} : Columns{shape.out, 0};
}

/// Enqueues the product of rest_of(), product_of(Columns), if there is one and the library knows
/// it; returns the columns that are left, all of them otherwise.
template <class ProductOf>
Columns multiply_rest(const NnContext& context, const LinearShape& shape, Dtype inputs,
                      ProductOf product_of) {
  const Columns rest = rest_of(shape, inputs);
  const bool apart = rest.count > 0 && try_multiply(context, product_of(rest));
  return {0, apart ? rest.first : shape.out};
}

/// x W^T; the views have been checked.
Product forward_product(const LinearShape& shape, Columns columns, ConstView x, ConstView weight,
                        View y) {
  return {.m = shape.rows,
          .n = columns.count,
          .k = shape.in,
          .inputs = y.dtype,
          .output = y.dtype,
          .a = {x.data, shape.in},
          .b = {weight.part(columns.first * shape.in, 0).data, shape.in, true},
          .d = y.part(columns.first, 0).data,
          .d_stride = shape.stride()};
}

void require_forward(const LinearShape& shape, ConstView x, ConstView weight, View y) {
  require(y, output_extent(shape), y.dtype, "linear output");
  require(x, shape.rows * shape.in, y.dtype, "linear input");
  require(weight, shape.in * shape.out, y.dtype, "linear weight");
}

/// dx = dy W, or the gradient of the GELU's input. Where the columns are split, the product of the
/// large part adds to the result of the rest: only the contribution of these few columns has been
/// rounded to dx's dtype before the sum.
void multiply_to_input(const NnContext& context, const LinearShape& shape, ConstView dy,
                       ConstView weight, ConstView gelu_input, View dx) {
  const auto product_of = [&](Columns columns) {
    const bool adds = columns.first == 0 && columns.count < shape.out;
    return Product{.m = shape.rows,
                   .n = shape.in,
                   .k = columns.count,
                   .inputs = dy.dtype,
                   .output = dy.dtype,
                   .a = {dy.part(columns.first, 0).data, shape.stride()},
                   .b = {weight.part(columns.first * shape.in, 0).data, shape.in},
                   .c = adds ? dx.data : nullptr,
                   .d = dx.data,
                   .d_stride = shape.in};
  };
  if (gelu_input.count > 0) {
    require(gelu_input, shape.rows * shape.in, dy.dtype, "gelu input");
    if (fuses_gelu(gelu_input, shape.in, shape.in)) {
      Product product = product_of({0, shape.out});
      product.epilogue = Epilogue::d_gelu;
      product.gelu_input = gelu_input.data;
      product.gelu_stride = shape.in;
      if (try_multiply(context, product)) return;
    }
  }
  multiply(context, product_of(multiply_rest(context, shape, dy.dtype, product_of)));
  if (gelu_input.count > 0) gelu_backward(context.stream, shape.rows * shape.in, gelu_input, dx);
}

/// d_weight = (accumulate ? d_weight : 0) + dy^T x.
void multiply_to_weight(const NnContext& context, const LinearShape& shape, ConstView dy,
                        ConstView x, bool accumulate, View d_weight) {
  const auto product_of = [&](Columns columns) {
    const View rows = d_weight.part(columns.first * shape.in, 0);
    return Product{.m = columns.count,
                   .n = shape.in,
                   .k = shape.rows,
                   .inputs = dy.dtype,
                   .output = d_weight.dtype,
                   .a = {dy.part(columns.first, 0).data, shape.stride(), true},
                   .b = {x.data, shape.in},
                   .c = accumulate ? rows.data : nullptr,
                   .d = rows.data,
                   .d_stride = shape.in};
  };
  multiply(context, product_of(multiply_rest(context, shape, dy.dtype, product_of)));
}

}  // namespace

void linear_forward(const NnContext& context, const LinearShape& shape, ConstView x,
                    ConstView weight, ConstView bias, ConstView residual, View y) {
  require_forward(shape, x, weight, y);
  if (shape.rows == 0) return;  // no matrix of the library's is empty, here and below
  if (residual.count > 0) require(residual, output_extent(shape), y.dtype, "linear residual");
  const auto product_of = [&](Columns columns) {
    Product product = forward_product(shape, columns, x, weight, y);
    if (residual.count > 0) product.c = residual.part(columns.first, 0).data;
    return product;
  };
  const auto multiply_all = [&] {
    multiply(context, product_of(multiply_rest(context, shape, y.dtype, product_of)));
  };
  if (bias.count == 0) return multiply_all();
  require(bias, shape.out, y.dtype, "linear bias");
  const auto with_bias = [&](Columns columns) {
    Product product = product_of(columns);
    product.epilogue = Epilogue::bias;
    product.bias = bias.part(columns.first, 0).data;
    return product;
  };
  if (try_multiply(context, with_bias(multiply_rest(context, shape, y.dtype, with_bias)))) return;
  multiply_all();
  add_bias(context.stream, shape, bias, y);
}

void linear_gelu_forward(const NnContext& context, const LinearShape& shape, ConstView x,
                         ConstView weight, ConstView bias, View pre, View y) {
  require_forward(shape, x, weight, y);
  require(pre, output_extent(shape), y.dtype, "gelu input");
  require(bias, shape.out, y.dtype, "linear bias");
  if (shape.rows == 0) return;
  if (fuses_gelu(pre, shape.out, shape.stride())) {
    Product product = forward_product(shape, {0, shape.out}, x, weight, y);
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
  require_gradient(d_weight, shape.in * shape.out, d_weight.dtype, weight.dtype,
                   "linear weight gradient");
  if (d_bias.count > 0) {
    require_gradient(d_bias, shape.out, d_weight.dtype, weight.dtype, "linear bias gradient");
  }
  if (shape.rows == 0) {
    if (accumulate) return;
    for (const View& sum : {d_weight, d_bias}) cuda_memory_ops()->clear(sum, context.stream);
    return;
  }
  // In this order: a backward pass gathers the next weights while it begins, and the product to the
  // weight, whose blocks stay on their multiprocessors, takes twice its time beside that.
  multiply_to_input(context, shape, dy, weight, gelu_input, dx);
  if (d_bias.count > 0) column_sums(context, shape, dy, accumulate, d_bias);
  multiply_to_weight(context, shape, dy, x, accumulate, d_weight);
}

}  // namespace zeropp::nn::cuda_ops

#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"
#include "kernels/nn/host/products.hpp"
#include "kernels/nn/math.hpp"

namespace zeropp::nn::host {

namespace {

/// Elements from the first to the last of a matrix whose rows are padded.
std::size_t extent(std::size_t rows, std::size_t columns, std::size_t stride) {
  return rows == 0 ? 0 : (rows - 1) * stride + columns;
}
std::size_t output_extent(const LinearShape& shape) {
  return extent(shape.rows, shape.out, shape.stride());
}

/// The weight as fp32, the dtype that CBLAS multiplies: the weight itself, or widened into the
/// workspace.
const float* widened(const NnContext& context, ConstView weight, std::size_t count) {
  require(weight, count, "linear weight");
  if (weight.dtype == Dtype::fp32) return weight.as<float>();
  float* const wide = floats(context.workspace, count, "linear workspace");
  with_type(weight.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const narrow = weight.as<T>();
    for_blocks("linear_widen", count, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) wide[i] = to_float(narrow[i]);
    });
  });
  return wide;
}

/// y[r, j] = bias[j] + residual[r, j], where they are given: what the product is added to.
void begin_output(const LinearShape& shape, ConstView bias, ConstView residual, float* y) {
  const std::size_t n = shape.out;
  const std::size_t stride = shape.stride();
  if (residual.count > 0) {
    const float* const from = floats(residual, output_extent(shape), "linear residual");
    host_for("linear_residual", shape.rows,
             [=](std::size_t row) { std::copy_n(from + row * stride, n, y + row * stride); });
  }
  if (bias.count == 0) return;
  require(bias, n, "linear bias");
  const bool add = residual.count > 0;
  with_type(bias.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const b = bias.as<T>();
    host_for("linear_bias", shape.rows, [=](std::size_t row) {
      float* const out = y + row * stride;
      if (add) {
        for (std::size_t j = 0; j < n; ++j) out[j] += to_float(b[j]);
      } else {
        for (std::size_t j = 0; j < n; ++j) out[j] = to_float(b[j]);
      }
    });
  });
}

}  // namespace

void linear_forward(const NnContext& context, const LinearShape& shape, ConstView x,
                    ConstView weight, ConstView bias, ConstView residual, View y) {
  const float* const from = floats(x, shape.rows * shape.in, "linear input");
  const float* const w = widened(context, weight, shape.in * shape.out);
  float* const to = floats(y, output_extent(shape), "linear output");
  begin_output(shape, bias, residual, to);
  const float beta = bias.count > 0 || residual.count > 0 ? 1.0F : 0.0F;
  const ProductScope scope(context);
  multiply(shape.rows, shape.out, shape.in, 1.0F, {from, shape.in}, {w, shape.in, true}, beta, to,
           shape.stride());
}

void linear_gelu_forward(const NnContext& context, const LinearShape& shape, ConstView x,
                         ConstView weight, ConstView bias, View pre, View y) {
  linear_forward(context, shape, x, weight, bias, {}, pre);
  const auto* const in = pre.as<float>();
  float* const out = floats(y, output_extent(shape), "gelu output");
  host_for("gelu_forward", shape.rows, [=, n = shape.out, stride = shape.stride()](auto row) {
    for (std::size_t i = row * stride; i < row * stride + n; ++i) out[i] = Gelu::value(in[i]);
  });
}

void linear_backward(const NnContext& context, const LinearShape& shape, ConstView dy, ConstView x,
                     ConstView weight, ConstView gelu_input, View dx, bool accumulate,
                     View d_weight, View d_bias) {
  const std::size_t rows = shape.rows;
  const std::size_t in = shape.in;
  const std::size_t out = shape.out;
  const std::size_t stride = shape.stride();
  const float* const grad = floats(dy, output_extent(shape), "linear output gradient");
  const float* const from = floats(x, rows * in, "linear input");
  const float* const w = widened(context, weight, in * out);
  float* const d_from = floats(dx, rows * in, "linear input gradient");
  require(d_weight, in * out, "linear weight gradient");
  if (d_bias.count > 0) {
    require(d_bias, out, "linear bias gradient");
    sum_rows("linear_backward_bias", rows, out, accumulate, d_bias,
             [=](std::size_t row, std::size_t j) { return grad[row * stride + j]; });
  }
  // CBLAS writes fp32: a narrower gradient begins in the workspace, when the wide weight has
  // served.
  const bool narrow = d_weight.dtype != Dtype::fp32;
  float* const d_w =
      narrow ? floats(context.workspace, in * out, "linear workspace") : d_weight.as<float>();
  {
    const ProductScope scope(context);
    multiply(rows, in, out, 1.0F, {grad, stride}, {w, in}, 0.0F, d_from, in);
    multiply(out, in, rows, 1.0F, {grad, stride, true}, {from, in},
             accumulate && !narrow ? 1.0F : 0.0F, d_w, in);
  }
  if (narrow) {
    sum_rows("linear_backward_narrow", 1, in * out, accumulate, d_weight,
             [=](std::size_t, std::size_t i) { return d_w[i]; });
  }
  if (gelu_input.count == 0) return;
  const float* const pre = floats(gelu_input, rows * in, "gelu input");
  for_blocks("gelu_backward", rows * in, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) d_from[i] *= Gelu::derivative(pre[i]);
  });
}

std::size_t linear_workspace(const LinearShape& shape, Dtype compute) {
  return compute == Dtype::fp32 ? 0 : shape.in * shape.out;
}

}  // namespace zeropp::nn::host

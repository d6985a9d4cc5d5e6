#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"
#include "kernels/nn/host/products.hpp"

namespace zeropp::nn::host {

namespace {

/// The weight as fp32, which is what CBLAS multiplies: as it is, or widened into the workspace.
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
  if (residual.count > 0) {
    const float* const from = floats(residual, shape.rows * n, "linear residual");
    host_for("linear_residual", shape.rows,
             [=](std::size_t row) { std::copy_n(from + row * n, n, y + row * n); });
  }
  if (bias.count == 0) return;
  require(bias, n, "linear bias");
  const bool add = residual.count > 0;
  with_type(bias.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const b = bias.as<T>();
    host_for("linear_bias", shape.rows, [=](std::size_t row) {
      float* const out = y + row * n;
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
  const auto [rows, in, out] = shape;
  const float* const from = floats(x, rows * in, "linear input");
  const float* const w = widened(context, weight, in * out);
  float* const to = floats(y, rows * out, "linear output");
  begin_output(shape, bias, residual, to);
  const float beta = bias.count > 0 || residual.count > 0 ? 1.0F : 0.0F;
  const ProductScope scope(context);
  multiply(rows, out, in, 1.0F, {from, in}, {w, in, true}, beta, to, out);
}

void linear_backward(const NnContext& context, const LinearShape& shape, ConstView dy, ConstView x,
                     ConstView weight, View dx, View d_weight, View d_bias) {
  const auto [rows, in, out] = shape;
  const float* const grad = floats(dy, rows * out, "linear output gradient");
  const float* const from = floats(x, rows * in, "linear input");
  const float* const w = widened(context, weight, in * out);
  float* const d_from = floats(dx, rows * in, "linear input gradient");
  float* const d_w = floats(d_weight, in * out, "linear weight gradient");
  if (d_bias.count > 0) {
    float* const d_b = floats(d_bias, out, "linear bias gradient");
    for_blocks("linear_backward_bias", out,
               [=, m = rows, n = out](std::size_t begin, std::size_t end) {
                 for (std::size_t row = 0; row < m; ++row) {
                   for (std::size_t j = begin; j < end; ++j) d_b[j] += grad[row * n + j];
                 }
               });
  }
  const ProductScope scope(context);
  multiply(rows, in, out, 1.0F, {grad, out}, {w, in}, 0.0F, d_from, in);
  multiply(out, in, rows, 1.0F, {grad, out, true}, {from, in}, 1.0F, d_w, in);
}

std::size_t linear_workspace(std::size_t elements, Dtype dtype) {
  return dtype == Dtype::fp32 ? 0 : elements;
}

}  // namespace zeropp::nn::host

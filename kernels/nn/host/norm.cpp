#include <cmath>

#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"

namespace zeropp::nn::host {

void norm_forward(const NnContext& /*context*/, const NormShape& shape, ConstView x,
                  ConstView weight, ConstView bias, View y, View mean, View rstd) {
  const auto [rows, hidden, epsilon] = shape;
  const bool centred = mean.count > 0;
  const float* const in = floats(x, rows * hidden, "norm input");
  require(weight, hidden, "norm weight");
  if (centred) require(bias, hidden, "norm bias");
  float* const out = floats(y, rows * hidden, "norm output");
  float* const means = centred ? floats(mean, rows, "norm mean") : nullptr;
  float* const rstds = floats(rstd, rows, "norm rstd");
  const float scale = 1.0F / static_cast<float>(hidden);
  with_type(weight.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const w = weight.as<T>();
    const T* const b = centred ? bias.as<T>() : nullptr;
    host_for("norm_forward", rows, [=, n = hidden, eps = epsilon](std::size_t row) {
      const float* const values = in + row * n;
      float* const result = out + row * n;
      const float m = centred ? scale * sum(n, [=](std::size_t j) { return values[j]; }) : 0.0F;
      const float variance = scale * sum(n, [=](std::size_t j) {
                               const float d = values[j] - m;
                               return d * d;
                             });
      const float r = 1.0F / std::sqrt(variance + eps);
      if (centred) {
        for (std::size_t j = 0; j < n; ++j) {
          result[j] = (values[j] - m) * r * to_float(w[j]) + to_float(b[j]);
        }
        means[row] = m;
      } else {
        for (std::size_t j = 0; j < n; ++j) result[j] = values[j] * r * to_float(w[j]);
      }
      rstds[row] = r;
    });
  });
}

void norm_backward(const NnContext& /*context*/, const NormShape& shape, ConstView dy, ConstView x,
                   ConstView weight, ConstView mean, ConstView rstd, bool accumulate_dx, View dx,
                   bool accumulate, View d_weight, View d_bias) {
  const std::size_t rows = shape.rows;
  const std::size_t hidden = shape.hidden;
  const bool centred = mean.count > 0;
  const float* const grad = floats(dy, rows * hidden, "norm output gradient");
  const float* const in = floats(x, rows * hidden, "norm input");
  require(weight, hidden, "norm weight");
  const float* const means = centred ? floats(mean, rows, "norm mean") : nullptr;
  const float* const rstds = floats(rstd, rows, "norm rstd");
  float* const d_in = floats(dx, rows * hidden, "norm input gradient");
  require(d_weight, hidden, "norm weight gradient");
  if (centred) require(d_bias, hidden, "norm bias gradient");
  const float scale = 1.0F / static_cast<float>(hidden);
  if (!accumulate_dx) std::fill_n(d_in, rows * hidden, 0.0F);
  with_type(weight.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const w = weight.as<T>();
    host_for("norm_backward", rows, [=](std::size_t row) {
      const float* const g = grad + row * hidden;
      const float* const values = in + row * hidden;
      float* const d = d_in + row * hidden;
      const float m = centred ? means[row] : 0.0F;
      const float r = rstds[row];
      const float mean_g =
          centred ? scale * sum(hidden, [=](std::size_t j) { return g[j] * to_float(w[j]); })
                  : 0.0F;
      const float mean_gn = scale * r * sum(hidden, [=](std::size_t j) {
                              return g[j] * to_float(w[j]) * (values[j] - m);
                            });
      for (std::size_t j = 0; j < hidden; ++j) {
        const float n = (values[j] - m) * r;
        d[j] += r * (g[j] * to_float(w[j]) - mean_g - n * mean_gn);
      }
    });
  });
  sum_rows("norm_backward_weight", rows, hidden, accumulate, d_weight,
           [=](std::size_t row, std::size_t j) {
             const std::size_t at = row * hidden + j;
             return grad[at] * ((in[at] - (centred ? means[row] : 0.0F)) * rstds[row]);
           });
  if (!centred) return;
  sum_rows("norm_backward_bias", rows, hidden, accumulate, d_bias,
           [=](std::size_t row, std::size_t j) { return grad[row * hidden + j]; });
}

std::size_t norm_workspace(std::size_t /*rows*/, std::size_t /*hidden*/) { return 0; }

}  // namespace zeropp::nn::host

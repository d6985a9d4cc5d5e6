#include <cmath>

#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"

namespace zeropp::nn::host {

namespace {
constexpr float kEpsilon = 1e-5F;
}

void layernorm_forward(const NnContext& /*context*/, std::size_t rows, std::size_t hidden,
                       ConstView x, ConstView weight, ConstView bias, View y, View mean,
                       View rstd) {
  const float* const in = floats(x, rows * hidden, "layernorm input");
  require(weight, hidden, "layernorm weight");
  require(bias, hidden, "layernorm bias");
  float* const out = floats(y, rows * hidden, "layernorm output");
  float* const means = floats(mean, rows, "layernorm mean");
  float* const rstds = floats(rstd, rows, "layernorm rstd");
  const float scale = 1.0F / static_cast<float>(hidden);
  with_type(weight.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const w = weight.as<T>();
    const T* const b = bias.as<T>();
    host_for("layernorm_forward", rows, [=](std::size_t row) {
      const float* const values = in + row * hidden;
      float* const result = out + row * hidden;
      const float m = scale * sum(hidden, [=](std::size_t j) { return values[j]; });
      const float variance = scale * sum(hidden, [=](std::size_t j) {
                               const float d = values[j] - m;
                               return d * d;
                             });
      const float r = 1.0F / std::sqrt(variance + kEpsilon);
      for (std::size_t j = 0; j < hidden; ++j) {
        result[j] = (values[j] - m) * r * to_float(w[j]) + to_float(b[j]);
      }
      means[row] = m;
      rstds[row] = r;
    });
  });
}

void layernorm_backward(const NnContext& /*context*/, std::size_t rows, std::size_t hidden,
                        ConstView dy, ConstView x, ConstView weight, ConstView mean, ConstView rstd,
                        bool accumulate_dx, View dx, bool accumulate, View d_weight, View d_bias) {
  const float* const grad = floats(dy, rows * hidden, "layernorm output gradient");
  const float* const in = floats(x, rows * hidden, "layernorm input");
  require(weight, hidden, "layernorm weight");
  const float* const means = floats(mean, rows, "layernorm mean");
  const float* const rstds = floats(rstd, rows, "layernorm rstd");
  float* const d_in = floats(dx, rows * hidden, "layernorm input gradient");
  require(d_weight, hidden, "layernorm weight gradient");
  require(d_bias, hidden, "layernorm bias gradient");
  const float scale = 1.0F / static_cast<float>(hidden);
  if (!accumulate_dx) std::fill_n(d_in, rows * hidden, 0.0F);
  with_type(weight.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const w = weight.as<T>();
    host_for("layernorm_backward", rows, [=](std::size_t row) {
      const float* const g = grad + row * hidden;
      const float* const values = in + row * hidden;
      float* const d = d_in + row * hidden;
      const float m = means[row];
      const float r = rstds[row];
      const float mean_g =
          scale * sum(hidden, [=](std::size_t j) { return g[j] * to_float(w[j]); });
      const float mean_gn = scale * r * sum(hidden, [=](std::size_t j) {
                              return g[j] * to_float(w[j]) * (values[j] - m);
                            });
      for (std::size_t j = 0; j < hidden; ++j) {
        const float n = (values[j] - m) * r;
        d[j] += r * (g[j] * to_float(w[j]) - mean_g - n * mean_gn);
      }
    });
  });
  sum_rows("layernorm_backward_weight", rows, hidden, accumulate, d_weight,
           [=](std::size_t row, std::size_t j) {
             const std::size_t at = row * hidden + j;
             return grad[at] * ((in[at] - means[row]) * rstds[row]);
           });
  sum_rows("layernorm_backward_bias", rows, hidden, accumulate, d_bias,
           [=](std::size_t row, std::size_t j) { return grad[row * hidden + j]; });
}

std::size_t layernorm_workspace(std::size_t /*rows*/, std::size_t /*hidden*/) { return 0; }

}  // namespace zeropp::nn::host

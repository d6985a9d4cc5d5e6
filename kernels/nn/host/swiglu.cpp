#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"
#include "kernels/nn/math.hpp"

namespace zeropp::nn::host {

void swiglu_forward(const NnContext& /*context*/, std::size_t rows, std::size_t width,
                    ConstView gate_up, View y) {
  const float* const in = floats(gate_up, rows * 2 * width, "swiglu input");
  float* const out = floats(y, rows * width, "swiglu output");
  host_for("swiglu_forward", rows, [=](std::size_t row) {
    const float* const gate = in + row * 2 * width;
    const float* const up = gate + width;
    float* const result = out + row * width;
    for (std::size_t j = 0; j < width; ++j) result[j] = Silu::value(gate[j]) * up[j];
  });
}

void swiglu_backward(const NnContext& /*context*/, std::size_t rows, std::size_t width,
                     ConstView dy, View gate_up) {
  const float* const grad = floats(dy, rows * width, "swiglu output gradient");
  float* const both = floats(gate_up, rows * 2 * width, "swiglu input");
  host_for("swiglu_backward", rows, [=](std::size_t row) {
    const float* const d = grad + row * width;
    float* const gate = both + row * 2 * width;
    float* const up = gate + width;
    for (std::size_t j = 0; j < width; ++j) {
      const float g = gate[j];
      gate[j] = d[j] * up[j] * Silu::derivative(g);
      up[j] = d[j] * Silu::value(g);
    }
  });
}

}  // namespace zeropp::nn::host

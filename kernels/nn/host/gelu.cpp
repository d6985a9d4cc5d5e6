#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"
#include "kernels/nn/math.hpp"

namespace zeropp::nn::host {

void gelu_forward(const NnContext& /*context*/, std::size_t count, ConstView x, View y) {
  const float* const in = floats(x, count, "gelu input");
  float* const out = floats(y, count, "gelu output");
  for_blocks("gelu_forward", count, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = Gelu::value(in[i]);
  });
}

void gelu_backward(const NnContext& /*context*/, std::size_t count, ConstView x, View d) {
  const float* const in = floats(x, count, "gelu input");
  float* const grad = floats(d, count, "gelu gradient");
  for_blocks("gelu_backward", count, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) grad[i] *= Gelu::derivative(in[i]);
  });
}

}  // namespace zeropp::nn::host

#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"

namespace zeropp::nn::host {

void rotary(const NnContext& /*context*/, const AttentionShape& shape, ConstView table,
            bool backward, View qkv) {
  const std::size_t half = shape.head_width / 2;
  const float* const angles = floats(table, shape.length * shape.head_width, "rotary table");
  float* const values = floats(qkv, shape.rows() * shape.qkv(), "rotary queries and keys");
  host_for("rotary", shape.rows(), [=](std::size_t row) {
    const float* const angle = angles + row % shape.length * shape.head_width;
    float* head = values + row * shape.qkv();
    for (std::size_t h = 0; h < shape.heads + shape.kv_heads; ++h, head += shape.head_width) {
      for (std::size_t i = 0; i < half; ++i) {
        const float c = angle[2 * i];
        const float s = backward ? -angle[2 * i + 1] : angle[2 * i + 1];
        const float a = head[i];
        const float b = head[i + half];
        head[i] = c * a - s * b;
        head[i + half] = c * b + s * a;
      }
    }
  });
}

}  // namespace zeropp::nn::host

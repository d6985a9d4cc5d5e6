#include <cmath>
#include <utility>

#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"
#include "kernels/nn/math.hpp"

namespace zeropp::nn::host {

void cross_entropy(const NnContext& /*context*/, std::size_t rows, std::size_t vocab,
                   std::size_t stride, const std::int32_t* targets, bool gradient, float loss_scale,
                   View logits, View row_loss) {
  float* const values = floats(logits, rows * stride, "cross-entropy logits");
  float* const losses = floats(row_loss, rows, "cross-entropy row loss");
  const float weight = loss_scale / static_cast<float>(rows);
  host_for("cross_entropy", rows, [=](std::size_t r) {
    float* const row = values + r * stride;
    const auto target = static_cast<std::size_t>(targets[r]);
    const float top = largest(row, vocab);
    const float shifted_target = row[target] - top;
    for (std::size_t v = 0; v < vocab; ++v) row[v] = fast_exp(row[v] - top);
    const float total = sum(vocab, [=](std::size_t v) { return row[v]; });
    losses[r] = std::log(total) - shifted_target;
    if (!gradient) return;
    const float scale = weight / total;
    for (std::size_t v = 0; v < vocab; ++v) row[v] *= scale;
    row[target] -= weight;
    std::fill(row + vocab, row + stride, 0.0F);
  });
}

void add_mean(const NnContext& /*context*/, ConstView values, double* total) {
  const float* const from = floats(values, values.count, "mean input");
  double sum = 0.0;
  for (std::size_t i = 0; i < values.count; ++i) sum += static_cast<double>(from[i]);
  *total += sum / static_cast<double>(values.count);
}

void take_total(const NnContext& /*context*/, double* total, double* taken) {
  *taken = std::exchange(*total, 0.0);
}

}  // namespace zeropp::nn::host

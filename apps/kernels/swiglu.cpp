// SwiGLU of a block, whose MLP is four times as wide as its hidden size, and its gradient in place.
#include <cmath>

#include "apps/kernels/block.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {

namespace {

constexpr std::size_t kLooks = 32;  // rows
constexpr std::size_t kWider = 4;

struct Inputs {
  Inputs(const Block& block, const ComputeDevice& device)
      : rows(block.shape.rows()),
        width(kWider * block.shape.hidden),
        activation(block.activation(device)),
        gate_up(block.source.normals(1, activation)),
        dy(block.source.normals(2, activation)) {}

  [[nodiscard]] double gate(std::size_t row, std::size_t j) const {
    return gate_up(row * 2 * width + j);
  }
  [[nodiscard]] double up(std::size_t row, std::size_t j) const {
    return gate_up((row * 2 + 1) * width + j);
  }
  /// Bytes of so many matrices [rows, width].
  [[nodiscard]] double bytes_of(std::size_t matrices) const {
    return static_cast<double>(matrices * rows * width * size_of(activation));
  }

  std::size_t rows;
  std::size_t width;
  Dtype activation;
  Values gate_up, dy;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Problem forward_of(const Block& block, const ComputeDevice& device) {
  const Inputs in(block, device);
  constexpr double kOperations = 5;
  return {.work = {.read = in.bytes_of(2),
                   .written = in.bytes_of(1),
                   .operations = kOperations * static_cast<double>(in.rows * in.width)},
          .arrays = {{"gate_up", in.rows * 2 * in.width, in.activation, filled_with(in.gate_up)},
                     {"y", in.rows * in.width, in.activation}},
          .bind = [in](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
            return [&set, in, ops = on.nn](StreamHandle stream) {
              ops->swiglu_forward({.stream = stream, .workspace = {}}, in.rows, in.width, set[0],
                                  set[1]);
            };
          },
          .check =
              [in](const Results& results) {
                Verdict verdict;
                const Result y = results[1];
                verdict.written(y);
                for (const std::size_t row : some_of(in.rows, kLooks)) {
                  for (std::size_t j = 0; j < in.width; ++j) {
                    const double g = in.gate(row, j);
                    const double wanted = g * sigmoid(g) * in.up(row, j);
                    verdict.close(y, row * in.width + j, wanted,
                                  tolerance_of(in.activation) * (std::abs(wanted) + 1e-3));
                  }
                }
                return verdict.text();
              }};
}

Problem backward_of(const Block& block, const ComputeDevice& device) {
  const Inputs in(block, device);
  constexpr double kOperations = 9;
  return {.work = {.read = in.bytes_of(3),
                   .written = in.bytes_of(2),
                   .operations = kOperations * static_cast<double>(in.rows * in.width)},
          .arrays = {{"gate_up", in.rows * 2 * in.width, in.activation, filled_with(in.gate_up)},
                     {"dy", in.rows * in.width, in.activation, filled_with(in.dy)}},
          .bind = [in](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
            return [&set, in, ops = on.nn](StreamHandle stream) {
              ops->swiglu_backward({.stream = stream, .workspace = {}}, in.rows, in.width, set[1],
                                   set[0]);
            };
          },
          .check =
              [in](const Results& results) {
                Verdict verdict;
                const Result gradient = results[0];
                verdict.written(gradient);
                for (const std::size_t row : some_of(in.rows, kLooks)) {
                  for (std::size_t j = 0; j < in.width; ++j) {
                    const double g = in.gate(row, j);
                    const double s = sigmoid(g);
                    const double dy = in.dy(row * in.width + j);
                    const double d_gate = dy * in.up(row, j) * (s + g * s * (1 - s));
                    const double d_up = dy * g * s;
                    verdict.close(gradient, row * 2 * in.width + j, d_gate,
                                  tolerance_of(in.activation) * (std::abs(d_gate) + 1e-3));
                    verdict.close(gradient, (row * 2 + 1) * in.width + j, d_up,
                                  tolerance_of(in.activation) * (std::abs(d_up) + 1e-3));
                  }
                }
                return verdict.text();
              }};
}

std::string label(const Block& block) { return block.rows_by(kWider * block.shape.hidden); }

}  // namespace

const Kernel swiglu_forward{"swiglu_forward", "silu(gate) up", [](const Choice& choice) {
                              return block_cases(choice, swiglu_forward, "-", label, forward_of);
                            }};
const Kernel swiglu_backward{"swiglu_backward", "its gradients, in place",
                             [](const Choice& choice) {
                               return block_cases(choice, swiglu_backward, "-", label, backward_of);
                             }};

}  // namespace zeropp::kernels

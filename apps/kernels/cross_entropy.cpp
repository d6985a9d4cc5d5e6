// The loss of every token and the gradient of the logits, in place.
#include <algorithm>
#include <cmath>

#include "apps/kernels/block.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {

namespace {

constexpr std::size_t kLooks = 16;  // rows

struct Logits {
  Logits(const Block& block, const ComputeDevice& device)
      : rows(block.shape.rows()),
        vocab(block.vocab),
        stride(device.nn->logits_stride(vocab)),
        activation(block.activation(device)),
        values(block.source.normals(1, activation)),
        source(block.source) {}

  [[nodiscard]] std::size_t target(std::size_t row) const {
    return static_cast<std::size_t>(source.token(row, vocab));
  }

  std::size_t rows;
  std::size_t vocab;
  std::size_t stride;
  Dtype activation;
  Values values;
  Source source;
};

std::string check(const Logits& in, const Results& results) {
  Verdict verdict;
  const Result gradient = results[0];
  const Result losses = results[2];
  verdict.written(gradient);
  verdict.written(losses);
  for (const std::size_t row : some_of(in.rows, kLooks)) {
    double top = -INFINITY;
    double sum = 0;
    const auto logit = [&](std::size_t v) -> double { return in.values(row * in.stride + v); };
    for (std::size_t v = 0; v < in.vocab; ++v) top = std::max(top, logit(v));
    for (std::size_t v = 0; v < in.vocab; ++v) sum += std::exp(logit(v) - top);
    const std::size_t target = in.target(row);
    const double loss = top + std::log(sum) - logit(target);
    verdict.close(losses, row, loss, 1e-4 * (std::abs(loss) + 1));
    const auto rows = static_cast<double>(in.rows);
    for (std::size_t v = 0; v < in.stride; ++v) {
      const double share = v < in.vocab ? std::exp(logit(v) - top) / sum : 0.0;
      const double wanted = (share - (v == target ? 1.0 : 0.0)) / rows;
      verdict.close(gradient, row * in.stride + v, wanted,
                    tolerance_of(in.activation) * (std::abs(wanted) + 1e-7 / rows));
    }
  }
  return verdict.text();
}

Problem loss_of(const Block& block, const ComputeDevice& device) {
  const Logits in(block, device);
  const std::size_t n = in.rows * in.stride;
  const double moved = static_cast<double>(n * size_of(in.activation));
  const double rows = static_cast<double>(in.rows * sizeof(float));
  constexpr double kOperations = 4;
  return {.work = {.read = moved + rows,
                   .written = moved + rows,
                   .operations = kOperations * static_cast<double>(in.rows * in.vocab)},
          .arrays = {{"logits", n, in.activation, filled_with(in.values)},
                     {"targets", in.rows, Dtype::fp32,
                      [in](View memory, std::size_t) {
                        auto* const tokens = static_cast<std::int32_t*>(memory.data);
                        for (std::size_t row = 0; row < in.rows; ++row) {
                          tokens[row] = in.source.token(row, in.vocab);
                        }
                      }},
                     {"losses", in.rows}},
          .bind = [in](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
            return [&set, in, ops = on.nn](StreamHandle stream) {
              ops->cross_entropy({.stream = stream, .workspace = {}}, in.rows, in.vocab, in.stride,
                                 static_cast<const std::int32_t*>(set[1].data), true,
                                 /*loss_scale=*/1.0F, set[0], set[2]);
            };
          },
          .check = [in](const Results& results) { return check(in, results); }};
}

}  // namespace

const Kernel cross_entropy{
    "cross_entropy", "losses, and the gradient of the logits in place", [](const Choice& choice) {
      return block_cases(
          choice, cross_entropy, "-", [](const Block& block) { return block.rows_by(block.vocab); },
          loss_of);
    }};

}  // namespace zeropp::kernels

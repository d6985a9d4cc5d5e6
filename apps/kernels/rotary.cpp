// Rotary positions of queries and keys, in place, where all heads have keys of their own. The table
// of angles counts as read once.
#include <cmath>

#include "apps/kernels/block.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {

namespace {

constexpr std::size_t kLooks = 32;  // tokens

struct Inputs {
  Inputs(const Block& block, const ComputeDevice& device)
      : shape(block.attention()),
        activation(block.activation(device)),
        qkv(block.source.normals(1, activation)) {}

  [[nodiscard]] double angle(std::size_t t, std::size_t i) const {
    constexpr double kTheta = 10000;
    return static_cast<double>(t) *
           std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_width));
  }

  nn::AttentionShape shape;
  Dtype activation;
  Values qkv;
};

void fill_table(const Inputs& in, View table) {
  auto* to = table.as<float>();
  for (std::size_t t = 0; t < in.shape.length; ++t) {
    for (std::size_t i = 0; i < in.shape.head_width / 2; ++i) {
      *to++ = static_cast<float>(std::cos(in.angle(t, i)));
      *to++ = static_cast<float>(std::sin(in.angle(t, i)));
    }
  }
}

std::string check(const Inputs& in, const Results& results) {
  Verdict verdict;
  const Result rotated = results[0];
  verdict.written(rotated);
  const std::size_t half = in.shape.head_width / 2;
  for (const std::size_t row : some_of(in.shape.rows(), kLooks)) {
    const std::size_t token = row * in.shape.qkv();
    for (std::size_t head = 0; head < 2 * in.shape.heads; ++head) {
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t at = token + head * in.shape.head_width + i;
        const double angle = in.angle(row % in.shape.length, i);
        const double a = in.qkv(at);
        const double b = in.qkv(at + half);
        const double close = tolerance_of(in.activation) * (std::abs(a) + std::abs(b) + 1e-3);
        verdict.close(rotated, at, a * std::cos(angle) - b * std::sin(angle), close);
        verdict.close(rotated, at + half, b * std::cos(angle) + a * std::sin(angle), close);
      }
    }
    for (std::size_t j = 2 * in.shape.queries(); j < in.shape.qkv(); ++j) {  // values stay
      verdict.close(rotated, token + j, in.qkv(token + j), 0);
    }
  }
  return verdict.text();
}

Problem rotary_of(const Block& block, const ComputeDevice& device) {
  const Inputs in(block, device);
  const std::size_t turned = in.shape.rows() * 2 * in.shape.queries();
  const std::size_t angles = in.shape.length * in.shape.head_width;
  const auto moved = static_cast<double>(turned * size_of(in.activation));
  constexpr double kOperations = 3;
  return {.work = {.read = moved + static_cast<double>(angles * sizeof(float)),
                   .written = moved,
                   .operations = kOperations * static_cast<double>(turned)},
          .arrays = {{"qkv", in.shape.rows() * in.shape.qkv(), in.activation, filled_with(in.qkv)},
                     {"table", angles, Dtype::fp32,
                      [in](View table, std::size_t) { fill_table(in, table); }}},
          .bind = [in](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
            return [&set, in, ops = on.nn](StreamHandle stream) {
              ops->rotary({.stream = stream, .workspace = {}}, in.shape, set[1], false, set[0]);
            };
          },
          .check = [in](const Results& results) { return check(in, results); }};
}

std::string label(const Block& block) { return block.by_heads(); }

}  // namespace

const Kernel rotary{
    "rotary", "rotary positions of queries and keys, in place", [](const Choice& choice) {
      Choice even = choice;  // pairs of values are turned
      std::erase_if(even.shapes,
                    [](const BlockShape& shape) { return shape.hidden / shape.heads % 2 != 0; });
      return block_cases(even, rotary, "-", label, rotary_of);
    }};

}  // namespace zeropp::kernels

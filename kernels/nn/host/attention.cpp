#include <cmath>

#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"
#include "kernels/nn/host/products.hpp"
#include "kernels/nn/math.hpp"

namespace zeropp::nn::host {

namespace {

/// Offsets of query head i % heads of sequence i / heads, and of the keys and values that it reads.
struct Heads {
  AttentionShape shape;

  [[nodiscard]] std::size_t count() const { return shape.sequences * shape.heads; }
  [[nodiscard]] std::size_t square() const { return shape.length * shape.length; }
  /// The host keeps P [sequences, heads, length, length], zero beyond the columns that count.
  [[nodiscard]] std::size_t probabilities() const { return count() * square(); }
  [[nodiscard]] std::size_t queries(std::size_t i) const {
    return i / shape.heads * shape.length * shape.qkv() + i % shape.heads * shape.head_width;
  }
  /// Offset of the keys that the head reads.
  [[nodiscard]] std::size_t keys(std::size_t i) const {
    return i / shape.heads * shape.length * shape.qkv() + shape.queries() +
           i % shape.heads / shape.group() * shape.head_width;
  }
  [[nodiscard]] std::size_t values(std::size_t i) const { return keys(i) + shape.keys(); }
  [[nodiscard]] std::size_t in_y(std::size_t i) const {
    return i / shape.heads * shape.length * shape.queries() + i % shape.heads * shape.head_width;
  }
  /// Factor of a gradient of keys or values before the head adds to it: 0 for the first head of a
  /// group, which writes it.
  [[nodiscard]] float kept(std::size_t i) const {
    return i % shape.heads % shape.group() == 0 ? 0.0F : 1.0F;
  }
  [[nodiscard]] float scale() const {
    return 1.0F / std::sqrt(static_cast<float>(shape.head_width));
  }
};

/// A row of scores becomes probabilities over columns [0, n); the rest becomes zero.
void softmax_row(float* row, std::size_t n, std::size_t length) {
  const float top = largest(row, n);
  for (std::size_t j = 0; j < n; ++j) row[j] = fast_exp(row[j] - top);
  const float inverse = 1.0F / sum(n, [=](std::size_t j) { return row[j]; });
  for (std::size_t j = 0; j < n; ++j) row[j] *= inverse;
  std::fill(row + n, row + length, 0.0F);
}

/// A row of dP becomes dS = P (dP - rowsum(P dP)) in columns [0, n); the rest becomes zero.
void softmax_backward_row(const float* p, float* d, std::size_t n, std::size_t length) {
  const float dot = sum(n, [=](std::size_t j) { return p[j] * d[j]; });
  for (std::size_t j = 0; j < n; ++j) d[j] = p[j] * (d[j] - dot);
  std::fill(d + n, d + length, 0.0F);
}

}  // namespace

void attention_forward(const NnContext& context, const AttentionShape& shape, ConstView qkv,
                       View saved, View y) {
  const Heads heads{shape};
  const std::size_t t = shape.length;
  const std::size_t width = shape.head_width;
  const std::size_t stride = shape.qkv();
  const float* const in = floats(qkv, shape.rows() * stride, "attention qkv");
  float* const p = floats(saved, heads.probabilities(), "attention probabilities");
  float* const out = floats(y, shape.rows() * shape.queries(), "attention output");
  {
    const ProductScope scope(context);
    for (std::size_t i = 0; i < heads.count(); ++i) {
      multiply(t, t, width, heads.scale(), {in + heads.queries(i), stride},
               {in + heads.keys(i), stride, true}, 0.0F, p + i * heads.square(), t);
    }
  }
  host_for("attention_softmax", heads.count() * t,
           [=](std::size_t row) { softmax_row(p + row * t, row % t + 1, t); });
  const ProductScope scope(context);
  for (std::size_t i = 0; i < heads.count(); ++i) {
    multiply(t, width, t, 1.0F, {p + i * heads.square(), t}, {in + heads.values(i), stride}, 0.0F,
             out + heads.in_y(i), shape.queries());
  }
}

void attention_backward(const NnContext& context, const AttentionShape& shape, ConstView dy,
                        ConstView qkv, ConstView saved, ConstView /*y*/, View d_qkv) {
  const Heads heads{shape};
  const std::size_t t = shape.length;
  const std::size_t width = shape.head_width;
  const std::size_t stride = shape.qkv();
  const float* const grad = floats(dy, shape.rows() * shape.queries(), "attention gradient");
  const float* const in = floats(qkv, shape.rows() * stride, "attention qkv");
  const float* const p = floats(saved, heads.probabilities(), "attention probabilities");
  float* const d_in = floats(d_qkv, shape.rows() * stride, "attention qkv gradient");
  float* const d_s = floats(context.workspace, heads.probabilities(), "attention workspace");
  {
    const ProductScope scope(context);
    for (std::size_t i = 0; i < heads.count(); ++i) {
      const float* const d_out = grad + heads.in_y(i);
      multiply(t, t, width, 1.0F, {d_out, shape.queries()}, {in + heads.values(i), stride, true},
               0.0F, d_s + i * heads.square(), t);
      multiply(t, width, t, 1.0F, {p + i * heads.square(), t, true}, {d_out, shape.queries()},
               heads.kept(i), d_in + heads.values(i), stride);
    }
  }
  host_for("attention_softmax_backward", heads.count() * t, [=](std::size_t row) {
    softmax_backward_row(p + row * t, d_s + row * t, row % t + 1, t);
  });
  const ProductScope scope(context);
  for (std::size_t i = 0; i < heads.count(); ++i) {
    const float* const square = d_s + i * heads.square();
    multiply(t, width, t, heads.scale(), {square, t}, {in + heads.keys(i), stride}, 0.0F,
             d_in + heads.queries(i), stride);
    multiply(t, width, t, heads.scale(), {square, t, true}, {in + heads.queries(i), stride},
             heads.kept(i), d_in + heads.keys(i), stride);
  }
}

std::size_t attention_saved_bytes(const AttentionShape& shape, Dtype /*compute*/) {
  return Heads{shape}.probabilities() * sizeof(float);
}

std::size_t attention_workspace(const AttentionShape& shape, Dtype /*compute*/) {
  return Heads{shape}.probabilities();
}

std::string attention_name(const AttentionShape& /*shape*/, Dtype /*compute*/) { return "host"; }

}  // namespace zeropp::nn::host

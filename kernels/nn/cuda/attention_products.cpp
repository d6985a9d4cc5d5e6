// Causal attention by cuBLASLt's products with an own softmax between them: what runs where cuDNN
// does not. Heads are a batch; sequences follow each other, so that the scores of one sequence are
// in the workspace at a time. These are fp32: rounded to bf16 they would cost most of the result's
// accuracy. `saved` holds the probabilities P [S, heads, T, T] in the activations' dtype, as the
// products read them.
#include <cmath>

#include "kernels/nn/cuda/attention_path.hpp"
#include "kernels/nn/cuda/batched_product.hpp"
#include "kernels/nn/cuda/causal_softmax.hpp"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

/// Squares and matrices of one sequence, as batches of heads.
struct Heads {
  AttentionShape shape;
  Dtype dtype;

  [[nodiscard]] std::size_t length() const { return shape.length; }
  [[nodiscard]] std::size_t width() const { return shape.head_width(); }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(width())); }
  /// Elements of a [T, T] per head of a sequence.
  [[nodiscard]] std::size_t squares() const { return shape.heads * length() * length(); }
  /// Bytes of the squares in `type`, to the next multiple of 256.
  [[nodiscard]] std::size_t square_bytes(Dtype type) const {
    return (squares() * size_of(type) + 255) / 256 * 256;
  }
  /// Rows of tokens of sequence s: `row` elements each, from element `first` on.
  template <class AnyView>
  [[nodiscard]] auto tokens(const AnyView& view, std::size_t s, std::size_t row,
                            std::size_t first) const {
    const auto part = view.part(s * length() * row + first, (length() - 1) * row + shape.hidden);
    return MatrixBatch<decltype(part.data)>{part.data, dtype, row, width()};
  }
  template <class Pointer>
  [[nodiscard]] MatrixBatch<Pointer> square(Pointer data, Dtype type) const {
    return {data, type, length(), length() * length()};
  }
  [[nodiscard]] BatchedProduct product(std::size_t m, std::size_t n, std::size_t k, float alpha,
                                       Factor a, Factor b, MatrixBatch<void*> c) const {
    return {shape.heads, m, n, k, alpha, a, b, c};
  }
};

Factor transposed(const MatrixBatch<const void*>& matrix) { return {matrix, true}; }
Factor plain(const MatrixBatch<const void*>& matrix) { return {matrix, false}; }

class ProductAttention final : public AttentionPath {
 public:
  [[nodiscard]] std::string name() const override { return "cublaslt+softmax"; }
  [[nodiscard]] bool takes(const AttentionShape& /*shape*/, Dtype compute) const override {
    return compute == Dtype::fp32 || compute == Dtype::bf16;
  }
  [[nodiscard]] std::size_t saved_bytes(const AttentionShape& shape, Dtype compute) const override {
    return shape.sequences * Heads{shape, compute}.square_bytes(compute);
  }
  /// Scores or dP, and dS.
  [[nodiscard]] std::size_t workspace_bytes(const AttentionShape& shape,
                                            Dtype compute) const override {
    const Heads heads{shape, compute};
    return heads.square_bytes(Dtype::fp32) + heads.square_bytes(compute);
  }

  void forward(const NnContext& context, const AttentionShape& shape, ConstView qkv, View saved,
               View y) const override {
    const Heads heads{shape, qkv.dtype};
    const auto [sequences, t, unused, hidden] = shape;
    const std::size_t width = heads.width();
    check(shape, qkv, context.workspace, saved);
    require(y, sequences * t * hidden, heads.dtype, "attention output");
    auto* const scores = context.workspace.as<float>();
    for (std::size_t s = 0; s < sequences; ++s) {
      const auto q = heads.tokens(qkv, s, 3 * hidden, 0);
      const auto k = heads.tokens(qkv, s, 3 * hidden, hidden);
      const auto v = heads.tokens(qkv, s, 3 * hidden, 2 * hidden);
      const View p = probabilities(heads, saved, s);
      multiply(heads.product(t, t, width, heads.scale(), plain(q), transposed(k),
                             heads.square<void*>(scores, Dtype::fp32)),
               context.stream);
      causal_softmax(shape.heads, t, scores, p, context.stream);
      multiply(heads.product(t, width, t, 1.0F, plain(heads.square<const void*>(p.data, p.dtype)),
                             plain(v), heads.tokens(y, s, hidden, 0)),
               context.stream);
    }
  }

  void backward(const NnContext& context, const AttentionShape& shape, ConstView dy, ConstView qkv,
                ConstView saved, ConstView /*y*/, View d_qkv) const override {
    const Heads heads{shape, qkv.dtype};
    const auto [sequences, t, unused, hidden] = shape;
    const std::size_t width = heads.width();
    check(shape, qkv, context.workspace, saved);
    require(dy, sequences * t * hidden, heads.dtype, "attention gradient");
    require(d_qkv, sequences * t * 3 * hidden, heads.dtype, "attention qkv gradient");
    auto* const d_p = context.workspace.as<float>();
    const View d_s(static_cast<std::byte*>(context.workspace.data) +
                       heads.square_bytes(Dtype::fp32),
                   heads.squares(), heads.dtype, MemoryKind::device);
    const auto d_square = heads.square<const void*>(d_s.data, d_s.dtype);
    for (std::size_t s = 0; s < sequences; ++s) {
      const auto q = heads.tokens(qkv, s, 3 * hidden, 0);
      const auto k = heads.tokens(qkv, s, 3 * hidden, hidden);
      const auto v = heads.tokens(qkv, s, 3 * hidden, 2 * hidden);
      const auto d_o = heads.tokens(dy, s, hidden, 0);
      const ConstView p = probabilities(heads, saved, s);
      const auto square = heads.square<const void*>(p.data, p.dtype);
      multiply(heads.product(t, t, width, 1.0F, plain(d_o), transposed(v),
                             heads.square<void*>(d_p, Dtype::fp32)),
               context.stream);
      causal_softmax_backward(shape.heads, t, p, d_p, d_s, context.stream);
      multiply(heads.product(t, width, t, heads.scale(), plain(d_square), plain(k),
                             heads.tokens(d_qkv, s, 3 * hidden, 0)),
               context.stream);
      multiply(heads.product(t, width, t, heads.scale(), transposed(d_square), plain(q),
                             heads.tokens(d_qkv, s, 3 * hidden, hidden)),
               context.stream);
      multiply(heads.product(t, width, t, 1.0F, transposed(square), plain(d_o),
                             heads.tokens(d_qkv, s, 3 * hidden, 2 * hidden)),
               context.stream);
    }
  }

 private:
  void check(const AttentionShape& shape, ConstView qkv, ConstView workspace,
             ConstView saved) const {
    require(qkv, shape.sequences * shape.length * 3 * shape.hidden, qkv.dtype, "attention qkv");
    require(workspace, workspace_bytes(shape, qkv.dtype) / sizeof(float), Dtype::fp32,
            "attention workspace");
    require(saved, saved_bytes(shape, qkv.dtype) / sizeof(float), Dtype::fp32,
            "attention probabilities");
  }
  /// Those of sequence s, in `saved`, which is typed fp32 whatever it holds.
  template <class AnyView>
  static AnyView probabilities(const Heads& heads, const AnyView& saved, std::size_t s) {
    const std::size_t floats = heads.square_bytes(heads.dtype) / sizeof(float);
    return {saved.part(s * floats, floats).data, heads.squares(), heads.dtype, saved.kind};
  }
};

}  // namespace

const AttentionPath& product_attention() {
  static const ProductAttention kPath;
  return kPath;
}

}  // namespace zeropp::nn::cuda_ops

// Attention by cuBLASLt's products with an own softmax between them: what runs where cuDNN
// does not. Heads are a batch; sequences follow each other, so that the scores of one sequence are
// in the workspace at a time. These are fp32: rounded to 16 bits they would cost most of the
// result's accuracy. `saved` holds the probabilities P [S, heads, T, T] in the activations' dtype,
// as the products read them.
#include <cmath>

#include "kernels/nn/cuda/attention_path.hpp"
#include "kernels/nn/cuda/attention_softmax.hpp"
#include "kernels/nn/cuda/products.hpp"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

/// The matrices of one sequence, as batches of heads.
struct Heads {
  AttentionShape shape;
  Dtype dtype;

  [[nodiscard]] std::size_t length() const { return shape.length; }
  [[nodiscard]] std::size_t width() const { return shape.head_width(); }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(width())); }
  /// Elements of a [T, T] per head.
  [[nodiscard]] std::size_t squares() const { return shape.heads * length() * length(); }
  [[nodiscard]] std::size_t square_bytes(Dtype type) const {
    return cuda_sizes::attention_square(shape, type);
  }
  [[nodiscard]] Matrix square(const void* data) const {
    return {.data = data, .stride = length(), .batch_stride = length() * length()};
  }
  /// The tokens of sequence s, from column `first` of rows of `row` elements on.
  [[nodiscard]] Matrix tokens(ConstView view, std::size_t s, std::size_t row,
                              std::size_t first) const {
    const void* const begin = view.part(s * length() * row + first, 0).data;
    return {.data = begin, .stride = row, .batch_stride = width()};
  }

  /// square = alpha a b^T, [T, T] from [T, width].
  void scores(const NnContext& context, float alpha, Matrix a, Matrix b, float* square) const {
    b.transposed = true;
    multiply(context, {.m = length(),
                       .n = length(),
                       .k = width(),
                       .inputs = dtype,
                       .output = Dtype::fp32,
                       .a = a,
                       .b = b,
                       .d = square,
                       .d_stride = length(),
                       .alpha = alpha,
                       .batch = shape.heads,
                       .d_batch_stride = length() * length()});
  }
  /// to = alpha square b, [T, width]; `to` is told as the matrix that it becomes.
  void weighted(const NnContext& context, float alpha, Matrix square, Matrix b,
                const Matrix& to) const {
    multiply(context, {.m = length(),
                       .n = width(),
                       .k = length(),
                       .inputs = dtype,
                       .output = dtype,
                       .a = square,
                       .b = b,
                       .d = const_cast<void*>(to.data),  // NOLINT: a part of a View
                       .d_stride = to.stride,
                       .alpha = alpha,
                       .batch = shape.heads,
                       .d_batch_stride = to.batch_stride});
  }
};

Matrix transposed(Matrix matrix) {
  matrix.transposed = true;
  return matrix;
}

class ProductAttention final : public AttentionPath {
 public:
  [[nodiscard]] std::string name() const override { return "cublaslt+softmax"; }
  [[nodiscard]] std::string refusal(const AttentionShape& /*shape*/,
                                    Dtype /*compute*/) const override {
    return {};
  }
  [[nodiscard]] std::size_t saved_bytes(const AttentionShape& shape, Dtype compute) const override {
    return cuda_sizes::product_attention_saved(shape, compute);
  }
  /// Workspace of the products, of scores or dP, and of dS.
  [[nodiscard]] std::size_t workspace_bytes(const AttentionShape& shape,
                                            Dtype compute) const override {
    return cuda_sizes::product_attention_workspace(shape, compute);
  }

  void forward(const NnContext& context, const AttentionShape& shape, ConstView qkv, View saved,
               View y) const override {
    const Heads heads{shape, qkv.dtype};
    const std::size_t hidden = shape.hidden;
    check(context, shape, qkv, saved);
    require(y, shape.sequences * shape.length * hidden, heads.dtype, "attention output");
    float* const scores = squares_of(context);
    for (std::size_t s = 0; s < shape.sequences; ++s) {
      const auto part = [&](std::size_t n) { return heads.tokens(qkv, s, 3 * hidden, n * hidden); };
      const View p = probabilities(heads, saved, s);
      heads.scores(context, heads.scale(), part(0), part(1), scores);
      attention_softmax(shape.causal, shape.heads, shape.length, scores, p, context.stream);
      heads.weighted(context, 1.0F, heads.square(p.data), part(2), heads.tokens(y, s, hidden, 0));
    }
  }

  void backward(const NnContext& context, const AttentionShape& shape, ConstView dy, ConstView qkv,
                ConstView saved, ConstView /*y*/, View d_qkv) const override {
    const Heads heads{shape, qkv.dtype};
    const std::size_t hidden = shape.hidden;
    const std::size_t rows = shape.sequences * shape.length;
    check(context, shape, qkv, saved);
    require(dy, rows * hidden, heads.dtype, "attention gradient");
    require(d_qkv, rows * 3 * hidden, heads.dtype, "attention qkv gradient");
    float* const d_p = squares_of(context);
    const View d_s(d_p + heads.square_bytes(Dtype::fp32) / size_of(Dtype::fp32), heads.squares(),
                   heads.dtype, MemoryKind::device);
    for (std::size_t s = 0; s < shape.sequences; ++s) {
      const auto part = [&](std::size_t n) { return heads.tokens(qkv, s, 3 * hidden, n * hidden); };
      const auto gradient = [&](std::size_t n) {
        return heads.tokens(d_qkv, s, 3 * hidden, n * hidden);
      };
      const Matrix d_o = heads.tokens(dy, s, hidden, 0);
      const ConstView p = probabilities(heads, saved, s);
      heads.scores(context, 1.0F, d_o, part(2), d_p);
      attention_softmax_backward(shape.causal, shape.heads, shape.length, p, d_p, d_s,
                                 context.stream);
      const Matrix square = heads.square(d_s.data);
      heads.weighted(context, heads.scale(), square, part(1), gradient(0));
      heads.weighted(context, heads.scale(), transposed(square), part(0), gradient(1));
      heads.weighted(context, 1.0F, transposed(heads.square(p.data)), d_o, gradient(2));
    }
  }

 private:
  void check(const NnContext& context, const AttentionShape& shape, ConstView qkv,
             ConstView saved) const {
    require(qkv, shape.sequences * shape.length * 3 * shape.hidden, qkv.dtype, "attention qkv");
    require(context.workspace, workspace_bytes(shape, qkv.dtype) / sizeof(float), Dtype::fp32,
            "attention workspace");
    require(saved, saved_bytes(shape, qkv.dtype) / sizeof(float), Dtype::fp32,
            "attention probabilities");
  }
  /// Workspace after the part that products use.
  static float* squares_of(const NnContext& context) {
    return context.workspace.as<float>() + kProductWorkspace / sizeof(float);
  }
  /// Probabilities of sequence s in `saved`, which has the type fp32 whatever it holds.
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

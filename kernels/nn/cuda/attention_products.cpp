// Attention by cuBLASLt's products with an own softmax between them: what runs where cuDNN
// does not. Heads are a batch; sequences follow each other, so that the scores of one sequence are
// in the workspace at a time. These are fp32: rounded to 16 bits they would cost most of the
// result's accuracy. `saved` holds the probabilities P [S, heads, T, T] in the activations' dtype,
// as the products read them.
//
// With grouped queries a batch has one query head of each group, and the batches of a group follow
// each other: keys and values are then one apart in a batch. Their gradients are added up over the
// group, rounded after each head.
#include <cmath>

#include "kernels/nn/cuda/attention_path.hpp"
#include "kernels/nn/cuda/attention_softmax.hpp"
#include "kernels/nn/cuda/products.hpp"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

/// The matrices of one sequence, as batches of one query head of each group.
struct Heads {
  AttentionShape shape;
  Dtype dtype;

  [[nodiscard]] std::size_t length() const { return shape.length; }
  [[nodiscard]] std::size_t width() const { return shape.head_width; }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(width())); }
  /// Elements of a [T, T] per head.
  [[nodiscard]] std::size_t squares() const { return shape.heads * length() * length(); }
  [[nodiscard]] std::size_t square_bytes(Dtype type) const {
    return cuda_sizes::attention_square(shape, type);
  }
  /// Squares of head `member` of each group.
  [[nodiscard]] View squares(const View& all, std::size_t member) const {
    return all.part(member * length() * length(), 0);
  }
  [[nodiscard]] Matrix square(const void* data) const {
    return {.data = data, .stride = length(), .batch_stride = shape.group() * length() * length()};
  }
  /// The tokens of sequence s, from column `first` of rows of `row` elements on; heads lie `apart`
  /// columns apart.
  [[nodiscard]] Matrix tokens(ConstView view, std::size_t s, std::size_t row, std::size_t first,
                              std::size_t apart) const {
    const void* const begin = view.part(s * length() * row + first, 0).data;
    return {.data = begin, .stride = row, .batch_stride = apart};
  }
  [[nodiscard]] Matrix queries(ConstView qkv, std::size_t s, std::size_t member) const {
    return tokens(qkv, s, shape.qkv(), member * width(), shape.group() * width());
  }
  [[nodiscard]] Matrix keys(ConstView qkv, std::size_t s) const {
    return tokens(qkv, s, shape.qkv(), shape.queries(), width());
  }
  [[nodiscard]] Matrix values(ConstView qkv, std::size_t s) const {
    return tokens(qkv, s, shape.qkv(), shape.queries() + shape.keys(), width());
  }
  [[nodiscard]] Matrix output(ConstView y, std::size_t s, std::size_t member) const {
    return tokens(y, s, shape.queries(), member * width(), shape.group() * width());
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
                       .batch = shape.kv_heads,
                       .d_batch_stride = shape.group() * length() * length()});
  }
  /// to = alpha square b + (add ? to : 0), [T, width]; `to` is told as the matrix that it becomes.
  void weighted(const NnContext& context, float alpha, Matrix square, Matrix b, const Matrix& to,
                bool add = false) const {
    multiply(context, {.m = length(),
                       .n = width(),
                       .k = length(),
                       .inputs = dtype,
                       .output = dtype,
                       .a = square,
                       .b = b,
                       .c = add ? to.data : nullptr,
                       .d = const_cast<void*>(to.data),  // NOLINT: a part of a View
                       .d_stride = to.stride,
                       .alpha = alpha,
                       .batch = shape.kv_heads,
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
    check(context, shape, qkv, saved);
    require(y, shape.rows() * shape.queries(), heads.dtype, "attention output");
    const View scores = squares_of(context, heads);
    for (std::size_t s = 0; s < shape.sequences; ++s) {
      const View p = probabilities(heads, saved, s);
      for (std::size_t member = 0; member < shape.group(); ++member) {
        heads.scores(context, heads.scale(), heads.queries(qkv, s, member), heads.keys(qkv, s),
                     heads.squares(scores, member).as<float>());
      }
      attention_softmax(shape.heads, shape.length, scores.as<float>(), p, context.stream);
      for (std::size_t member = 0; member < shape.group(); ++member) {
        heads.weighted(context, 1.0F, heads.square(heads.squares(p, member).data),
                       heads.values(qkv, s), heads.output(y, s, member));
      }
    }
  }

  void backward(const NnContext& context, const AttentionShape& shape, ConstView dy, ConstView qkv,
                ConstView saved, ConstView /*y*/, View d_qkv) const override {
    const Heads heads{shape, qkv.dtype};
    check(context, shape, qkv, saved);
    require(dy, shape.rows() * shape.queries(), heads.dtype, "attention gradient");
    require(d_qkv, shape.rows() * shape.qkv(), heads.dtype, "attention qkv gradient");
    const View d_p = squares_of(context, heads);
    const View d_s(d_p.as<float>() + heads.square_bytes(Dtype::fp32) / size_of(Dtype::fp32),
                   heads.squares(), heads.dtype, MemoryKind::device);
    for (std::size_t s = 0; s < shape.sequences; ++s) {
      const ConstView p = probabilities(heads, saved, s);
      for (std::size_t member = 0; member < shape.group(); ++member) {
        heads.scores(context, 1.0F, heads.output(dy, s, member), heads.values(qkv, s),
                     heads.squares(d_p, member).as<float>());
      }
      attention_softmax_backward(shape.heads, shape.length, p, d_p.as<float>(), d_s,
                                 context.stream);
      for (std::size_t member = 0; member < shape.group(); ++member) {
        const Matrix square = heads.square(heads.squares(d_s, member).data);
        const Matrix weights = heads.square(p.part(member * shape.length * shape.length, 0).data);
        const bool add = member > 0;
        heads.weighted(context, heads.scale(), square, heads.keys(qkv, s),
                       heads.queries(d_qkv, s, member));
        heads.weighted(context, heads.scale(), transposed(square), heads.queries(qkv, s, member),
                       heads.keys(d_qkv, s), add);
        heads.weighted(context, 1.0F, transposed(weights), heads.output(dy, s, member),
                       heads.values(d_qkv, s), add);
      }
    }
  }

 private:
  void check(const NnContext& context, const AttentionShape& shape, ConstView qkv,
             ConstView saved) const {
    require(qkv, shape.rows() * shape.qkv(), qkv.dtype, "attention qkv");
    require(context.workspace, workspace_bytes(shape, qkv.dtype) / sizeof(float), Dtype::fp32,
            "attention workspace");
    require(saved, saved_bytes(shape, qkv.dtype) / sizeof(float), Dtype::fp32,
            "attention probabilities");
  }
  /// Workspace after the part that products use.
  static View squares_of(const NnContext& context, const Heads& heads) {
    return context.workspace.part(kProductWorkspace / sizeof(float), heads.squares());
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

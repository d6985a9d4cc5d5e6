// The operations of the GPT, forward and backward: a table that each back end fills. Views in, work
// enqueued on the context's stream; an operation owns and allocates nothing.
//
// Matrices are row-major. Activations and their gradients are fp32. Weights are fp32 or bf16 (all
// sums in fp32 either way). Gradients of weights are fp32 and added to (+=); gradients of
// activations are written unless said. An output never overlaps an input. No result depends on the
// number of threads.
//
// Throws std::invalid_argument when a view is of another back end's memory, of another dtype, or
// shorter than its shape says: a defect of the caller.
//
// Source: GPT-2 (Radford et al., 2019); layer normalisation, Ba et al., arXiv 1607.06450;
// attention, Vaswani et al., arXiv 1706.03762.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"

namespace zeropp::nn {

/// Told when an operation enters and leaves its matrix products, so that a caller can time them
/// apart from the rest of the operation.
class ProductObserver {
 public:
  virtual ~ProductObserver() = default;
  virtual void enter() = 0;
  virtual void leave() = 0;
};

struct NnContext {
  StreamHandle stream;
  ProductObserver* products = nullptr;  ///< may be null
  View workspace;                       ///< fp32 scratch of at least NnOps::*_workspace() elements
};

/// `sequences` rows of `length` tokens: S and T in the equations; rows R = S T.
struct EmbeddingShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t vocab = 0;
  std::size_t hidden = 0;
};

/// y [rows, out] from x [rows, in]
struct LinearShape {
  std::size_t rows = 0;
  std::size_t in = 0;
  std::size_t out = 0;
};

/// `hidden` is heads * width of a head.
struct AttentionShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t heads = 0;
  std::size_t hidden = 0;

  [[nodiscard]] std::size_t head_width() const { return hidden / heads; }
};

struct NnOps {
  /// y[s, t] = token_table[token[s, t]] + position_table[t]. tokens: [S, T] in [0, vocab);
  /// token_table [vocab, hidden]; position_table [>= T, hidden]; y [S, T, hidden].
  void (*embedding_forward)(const NnContext&, const EmbeddingShape&, const std::int32_t* tokens,
                            ConstView token_table, ConstView position_table, View y);
  /// d_token_table[token[s, t]] += dy[s, t]; d_position_table[t] += sum over s of dy[s, t].
  void (*embedding_backward)(const NnContext&, const EmbeddingShape&, const std::int32_t* tokens,
                             ConstView dy, View d_token_table, View d_position_table);

  /// y = (x - mean) rstd weight + bias over each row of `hidden` values; mean and the biased
  /// variance per row, rstd = 1 / sqrt(variance + 1e-5). x, y [rows, hidden]; weight, bias
  /// [hidden]; mean, rstd [rows] are kept for backward.
  void (*layernorm_forward)(const NnContext&, std::size_t rows, std::size_t hidden, ConstView x,
                            ConstView weight, ConstView bias, View y, View mean, View rstd);
  /// With n = (x - mean) rstd and g = dy weight:
  /// dx = (accumulate ? dx : 0) + rstd (g - mean(g) - n mean(g n)); d_weight += sum over rows of
  /// dy n; d_bias += sum over rows of dy.
  void (*layernorm_backward)(const NnContext&, std::size_t rows, std::size_t hidden, ConstView dy,
                             ConstView x, ConstView weight, ConstView mean, ConstView rstd,
                             bool accumulate, View dx, View d_weight, View d_bias);

  /// y = x W^T + bias + residual. x [rows, in]; weight [out, in]; bias [out] and residual
  /// [rows, out] may be empty views: left out.
  void (*linear_forward)(const NnContext&, const LinearShape&, ConstView x, ConstView weight,
                         ConstView bias, ConstView residual, View y);
  /// dx = dy W; d_weight += dy^T x; d_bias += sum over rows of dy (an empty view: no bias).
  void (*linear_backward)(const NnContext&, const LinearShape&, ConstView dy, ConstView x,
                          ConstView weight, View dx, View d_weight, View d_bias);
  /// Elements of workspace that linear_* needs for a weight of `elements` in `dtype`.
  std::size_t (*linear_workspace)(std::size_t elements, Dtype dtype);

  /// y = gelu(x), tanh form (kernels/nn/math.hpp), element by element.
  void (*gelu_forward)(const NnContext&, std::size_t count, ConstView x, View y);
  /// d = d * gelu'(x), in place: d comes in as dy and leaves as dx.
  void (*gelu_backward)(const NnContext&, std::size_t count, ConstView x, View d);

  /// Causal self-attention of each head h of each sequence, w = head width:
  /// P = softmax over j <= i of q_i . k_j / sqrt(w); y_i = sum over j of P_ij v_j.
  /// qkv [S, T, 3 hidden]: queries, keys, values, each with head h in columns [h w, (h + 1) w);
  /// y [S, T, hidden]. `saved`: what the back end keeps for its backward, whose content
  /// only it knows: an fp32 view of at least attention_saved_bytes() bytes, aligned to 256.
  void (*attention_forward)(const NnContext&, const AttentionShape&, ConstView qkv, View saved,
                            View y);
  /// d_qkv [S, T, 3 hidden]: dV = P^T dy; dP = dy V^T; dS = P (dP - rowsum(P dP));
  /// dQ = dS K / sqrt(w); dK = dS^T Q / sqrt(w). qkv, `saved` and y are those of forward: y is
  /// there because a fused back end gets rowsum(P dP) from dy . y.
  void (*attention_backward)(const NnContext&, const AttentionShape&, ConstView dy, ConstView qkv,
                             ConstView saved, ConstView y, View d_qkv);
  /// Bytes to keep from attention_forward to attention_backward. This and the workspace do not grow
  /// when a shape has fewer sequences or a smaller length.
  std::size_t (*attention_saved_bytes)(const AttentionShape&);
  /// Elements of workspace that attention_* needs.
  std::size_t (*attention_workspace)(const AttentionShape&);

  /// row_loss[r] = log(sum over v of e^logits[r, v]) - logits[r, target[r]], in nats. logits
  /// [rows, vocab]; targets in [0, vocab). With `gradient`, logits leave as the gradient of the
  /// mean row loss: (softmax - onehot(target)) / rows; else their content is lost.
  void (*cross_entropy)(const NnContext&, std::size_t rows, std::size_t vocab,
                        const std::int32_t* targets, bool gradient, View logits, View row_loss);
  /// *total += mean of fp32 values, their fp64 sum in order. total lies in the back end's memory.
  void (*add_mean)(const NnContext&, ConstView values, double* total);
  /// Returns *total and sets it to zero. Returns when the stream has come this far.
  double (*take_total)(const NnContext&, double* total);
};

/// Kokkos and CBLAS.
const NnOps& host_nn_ops();
/// The GPU's table; null in a build without CUDA.
const NnOps* cuda_nn_ops();

}  // namespace zeropp::nn

// The operations of a decoder, forward and backward: a table that each back end fills. Views in,
// work enqueued on the context's stream; an operation owns and allocates nothing.
//
// Matrices are row-major. Weights are of the compute dtype: fp32, bf16 or fp16; activations and
// their gradients of the dtype that activation_dtype() names for it; statistics and losses of rows
// of fp32, and gradients of weights too, or of the weights' dtype where an operation says so:
// rounded once, when the sum is complete. Views carry their dtype; all sums are fp32. An output is
// written, whatever it holds, unless an `accumulate` before it (or, in embedding_backward, its
// documentation) says that it is added to: for a gradient of weights this is one pass over memory
// instead of two after a clear, and the same values as adding to zeros. An output never overlaps an
// input, unless the operation says that it replaces one. No result depends on the number of
// threads; two runs give the same bits, on every back end, but for gradients of an attention whose
// shape does not ask for it, and for products that were tuned.
//
// Throws std::invalid_argument when a view is of another back end's memory, of another dtype, or
// shorter than its shape says: a defect of the caller.
//
// Source: GPT-2 (Radford et al., 2019); Llama (Touvron et al., arXiv 2302.13971); layer
// normalisation, Ba et al., arXiv 1607.06450; RMS normalisation, Zhang and Sennrich, arXiv
// 1910.07467; attention, Vaswani et al., arXiv 1706.03762; rotary positions, Su et al., arXiv
// 2104.09864; SwiGLU, Shazeer, arXiv 2002.05202.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/core/stream.hpp"
#include "kernels/core/view.hpp"
#include "kernels/nn/nn_sizes.hpp"

namespace zeropp::nn {

/// Told when an operation enters and leaves its matrix products, so that a caller can time them
/// apart from the rest of the operation. A back end that only enqueues them does not tell.
class ProductObserver {
 public:
  virtual ~ProductObserver() = default;
  virtual void enter() = 0;
  virtual void leave() = 0;
};

struct NnContext {
  StreamHandle stream;
  ProductObserver* products = nullptr;  ///< may be null
  /// fp32 scratch of at least NnOps::*_workspace() elements, aligned to 256 bytes; its content is
  /// lost.
  View workspace;
  /// Where a back end has several algorithms for a product, it times them when the product first
  /// occurs: that call waits, and what it chooses may differ from run to run. A back end with one
  /// algorithm ignores it.
  bool autotune = false;
};

/// Operations of networks on one back end; the base has the sizes of their memory.
struct NnOps : NnSizes {
  /// y[s, t] = token_table[token[s, t]] + position_table[t]. tokens: [S, T] in [0, vocab), in the
  /// back end's memory, as targets below;
  /// token_table [vocab, hidden]; position_table [>= T, hidden], or an empty view: left out; y
  /// [S, T, hidden].
  void (*embedding_forward)(const NnContext&, const EmbeddingShape&, const std::int32_t* tokens,
                            ConstView token_table, ConstView position_table, View y);
  /// d_token_table[token[s, t]] += dy[s, t]; d_position_table[t] += sum over s of dy[s, t], unless
  /// its view is empty. Always added: most rows of the tables have no token, so the caller clears
  /// them where that is due.
  void (*embedding_backward)(const NnContext&, const EmbeddingShape&, const std::int32_t* tokens,
                             ConstView dy, View d_token_table, View d_position_table);

  /// Normalises each row. With views `bias` and `mean` (layer normalisation):
  /// y = (x - mean) rstd weight + bias, mean and the biased variance of the row,
  /// rstd = 1 / sqrt(variance + epsilon). With both empty (RMS normalisation): y = x rstd weight,
  /// rstd = 1 / sqrt(mean(x^2) + epsilon). x, y [rows, hidden]; weight, bias [hidden]; mean, rstd
  /// [rows] are kept for backward.
  void (*norm_forward)(const NnContext&, const NormShape&, ConstView x, ConstView weight,
                       ConstView bias, View y, View mean, View rstd);
  /// With n = (x - mean) rstd and g = dy weight:
  /// dx = (accumulate_dx ? dx : 0) + rstd (g - mean(g) - n mean(g n));
  /// d_weight = (accumulate ? d_weight : 0) + sum over rows of dy n;
  /// d_bias = (accumulate ? d_bias : 0) + sum over rows of dy; both of fp32 or of the weight's
  /// dtype. RMS normalisation, whose `mean` and `d_bias` are empty views, has neither the mean nor
  /// mean(g).
  void (*norm_backward)(const NnContext&, const NormShape&, ConstView dy, ConstView x,
                        ConstView weight, ConstView mean, ConstView rstd, bool accumulate_dx,
                        View dx, bool accumulate, View d_weight, View d_bias);

  /// y = x W^T + bias + residual. x [rows, in]; weight [out, in]; bias [out] and residual
  /// [rows, out] may be empty views: left out.
  void (*linear_forward)(const NnContext&, const LinearShape&, ConstView x, ConstView weight,
                         ConstView bias, ConstView residual, View y);
  /// pre = x W^T + bias; y = gelu(pre), tanh form (kernels/nn/math.hpp). pre, y [rows, out].
  void (*linear_gelu_forward)(const NnContext&, const LinearShape&, ConstView x, ConstView weight,
                              ConstView bias, View pre, View y);
  /// dx = dy W; d_weight = (accumulate ? d_weight : 0) + dy^T x;
  /// d_bias = (accumulate ? d_bias : 0) + sum over rows of dy (an empty view: no bias), of
  /// d_weight's dtype: fp32, or the weight's. Where x = gelu(gelu_input), dx is the gradient of
  /// that input: (dy W) gelu'(gelu_input); gelu_input [rows, in], or an empty view.
  void (*linear_backward)(const NnContext&, const LinearShape&, ConstView dy, ConstView x,
                          ConstView weight, ConstView gelu_input, View dx, bool accumulate,
                          View d_weight, View d_bias);

  /// y = silu(gate) up, silu(g) = g / (1 + e^-g) (kernels/nn/math.hpp). gate_up [rows, 2 width]:
  /// the gate's columns, then those of up; y [rows, width].
  void (*swiglu_forward)(const NnContext&, std::size_t rows, std::size_t width, ConstView gate_up,
                         View y);
  /// Replaces gate_up by its gradient: d_gate = dy up silu'(gate); d_up = dy silu(gate).
  void (*swiglu_backward)(const NnContext&, std::size_t rows, std::size_t width, ConstView dy,
                          View gate_up);

  /// Rotates queries and keys in place by the angles of their positions t: with c, s = table[t, i],
  /// i < w / 2, (x_i, x_(i + w/2)) becomes (c x_i - s x_(i + w/2), c x_(i + w/2) + s x_i); the
  /// transpose with `backward`, which makes gradients of qkv those of what was rotated. table: fp32
  /// [>= T, w / 2, 2], cosine and sine; qkv as below, w even.
  void (*rotary)(const NnContext&, const AttentionShape&, ConstView table, bool backward, View qkv);

  /// Self-attention of each query head of each sequence, w = head width:
  /// P = softmax over j <= i of q_i . k_j / sqrt(w); y_i = sum over j of P_ij v_j.
  /// qkv [S, T, qkv()]; y [S, T, queries()], head h in columns [h w, (h + 1) w). `saved`: what the
  /// back end keeps for its backward, whose content only it knows: an fp32 view of at least
  /// attention_saved_bytes() bytes, aligned to 256.
  void (*attention_forward)(const NnContext&, const AttentionShape&, ConstView qkv, View saved,
                            View y);
  /// d_qkv [S, T, qkv()]: dV = P^T dy; dP = dy V^T; dS = P (dP - rowsum(P dP));
  /// dQ = dS K / sqrt(w); dK = dS^T Q / sqrt(w), dK and dV summed over the queries' heads of a
  /// group. qkv, `saved` and y are those of forward: y is there because a fused back end gets
  /// rowsum(P dP) from dy . y.
  void (*attention_backward)(const NnContext&, const AttentionShape&, ConstView dy, ConstView qkv,
                             ConstView saved, ConstView y, View d_qkv);
  /// Name of the attention that runs, for the trace: "host", "cudnn 9.14.0", or, where it is not
  /// the fused one, with the reason: "cublaslt+softmax (built without cuDNN)". One line.
  std::string (*attention_name)(const AttentionShape&, Dtype compute);

  /// row_loss[r] = log(sum over v of e^logits[r, v]) - logits[r, target[r]], in nats. logits
  /// [rows, vocab], rows `stride` elements apart; targets in [0, vocab). With `gradient`, logits
  /// leave as the gradient of loss_scale times the mean loss, (softmax - onehot(target))
  /// loss_scale / rows, zeros between the rows; else their content is lost. row_loss is not scaled.
  void (*cross_entropy)(const NnContext&, std::size_t rows, std::size_t vocab, std::size_t stride,
                        const std::int32_t* targets, bool gradient, float loss_scale, View logits,
                        View row_loss);
  /// *total += mean of fp32 values, summed in order in fp64. total lies in the back end's memory.
  void (*add_mean)(const NnContext&, ConstView values, double* total);
  /// *taken = *total, and *total = 0. `taken`: host memory; a GPU makes the host wait unless it is
  /// pinned.
  void (*take_total)(const NnContext&, double* total, double* taken);
};

/// Kokkos and CBLAS.
const NnOps& host_nn_ops();
/// The GPU's table; null in a build without CUDA.
const NnOps* cuda_nn_ops();

}  // namespace zeropp::nn

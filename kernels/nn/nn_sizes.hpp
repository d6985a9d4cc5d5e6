// Memory that the operations of a decoder (nn_ops.hpp) need, by their shapes: pure functions for
// each back end, which also answer on a machine without it.
#pragma once

#include <cstddef>

#include "kernels/core/dtype.hpp"
#include "kernels/core/stream.hpp"

namespace zeropp::nn {

/// `sequences` rows of `length` tokens: S and T in the equations; rows R = S T.
struct EmbeddingShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t vocab = 0;
  std::size_t hidden = 0;
};

/// Rows of `hidden` values that are normalised each by itself.
struct NormShape {
  std::size_t rows = 0;
  std::size_t hidden = 0;
  float epsilon = 1e-5F;
};

/// y [rows, out] from x [rows, in]; rows of y, of its gradient and of a residual lie out_stride
/// elements apart (0: out).
struct LinearShape {
  std::size_t rows = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t out_stride = 0;

  [[nodiscard]] std::size_t stride() const { return out_stride == 0 ? out : out_stride; }
};

/// Causal attention: a token attends to itself and those before it. Query head h reads the keys and
/// values of head h / (heads / kv_heads) (grouped queries, Ainslie et al., arXiv 2305.13245);
/// kv_heads divides heads. A row of qkv has the queries of all heads, then the keys and then the
/// values of all kv_heads, each head `head_width` columns.
///
/// A back end with several kinds of attention decides for one by `longest`, the length of the
/// longest sequences of this use (0: `length`), so that shorter sequences are treated the same.
/// `deterministic`: backward gives the same bits in every run, also where a back end has a faster
/// one that does not; the workspace is that of the one that runs.
struct AttentionShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_width = 0;
  std::size_t longest = 0;
  bool deterministic = false;

  [[nodiscard]] std::size_t rows() const { return sequences * length; }
  /// Columns of the queries, and of the output.
  [[nodiscard]] std::size_t queries() const { return heads * head_width; }
  /// Columns of the keys, and of the values.
  [[nodiscard]] std::size_t keys() const { return kv_heads * head_width; }
  [[nodiscard]] std::size_t qkv() const { return queries() + 2 * keys(); }
  /// Query heads that read the same keys.
  [[nodiscard]] std::size_t group() const { return heads / kv_heads; }
};

/// No size grows when a shape has fewer rows, sequences or a smaller length. Workspaces are counted
/// in fp32 elements.
struct NnSizes {
  /// Dtype of activations and their gradients.
  Dtype (*activation_dtype)(Dtype compute);
  /// Elements from one row of logits to the next, >= vocab.
  std::size_t (*logits_stride)(std::size_t vocab);
  std::size_t (*embedding_workspace)(const EmbeddingShape&);
  std::size_t (*norm_workspace)(std::size_t rows, std::size_t hidden);
  std::size_t (*linear_workspace)(const LinearShape&, Dtype compute);
  /// Bytes to keep from attention_forward to attention_backward.
  std::size_t (*attention_saved_bytes)(const AttentionShape&, Dtype compute);
  std::size_t (*attention_workspace)(const AttentionShape&, Dtype compute);
};

/// Sizes that a plan counts with, also in a build without CUDA. For a GPU they assume cuDNN, with
/// an engine wherever it may be asked for one.
const NnSizes& planned_sizes(Backend backend);

}  // namespace zeropp::nn

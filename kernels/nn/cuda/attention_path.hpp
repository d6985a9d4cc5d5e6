// Two ways to run attention on the GPU, with one interface: fused kernels of cuDNN, and
// products of cuBLASLt around an own softmax. Semantics: attention_* of kernels/nn/nn_ops.hpp. Only
// the path that wrote `saved` can read it.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn::cuda_ops {

class AttentionPath {
 public:
  virtual ~AttentionPath() = default;
  /// Name for the trace: "cudnn 9.14.0".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Reason, one line, why this path cannot compute the shape forward and backward; empty where it
  /// can. The same answer in every call of a process.
  [[nodiscard]] virtual std::string refusal(const AttentionShape&, Dtype compute) const = 0;
  [[nodiscard]] virtual std::size_t saved_bytes(const AttentionShape&, Dtype compute) const = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes(const AttentionShape&, Dtype compute) const = 0;
  virtual void forward(const NnContext&, const AttentionShape&, ConstView qkv, View saved,
                       View y) const = 0;
  virtual void backward(const NnContext&, const AttentionShape&, ConstView dy, ConstView qkv,
                        ConstView saved, ConstView y, View d_qkv) const = 0;
};

/// cuBLASLt and an own softmax: every shape and dtype; memory grows with the square of the
/// length.
const AttentionPath& product_attention();

/// cuDNN's fused attention: bf16 and fp16; `path` is null where it cannot be used, and `absence`
/// says why.
struct FusedAttention {
  const AttentionPath* path = nullptr;
  std::string absence;
};
const FusedAttention& fused_attention();

/// Attention that runs for a shape. `reason` says why it is not the fused attention, and is empty
/// where it is.
struct AttentionChoice {
  const AttentionPath& path;
  std::string reason;
};

/// The fused attention where it takes sequences of shape.longest tokens: shorter ones run on the
/// same path, in memory that was sized for it, and one that only they are refused on fails when it
/// is run. Single tokens, which no fused attention takes, always run on the products.
[[nodiscard]] AttentionChoice choose_attention(const FusedAttention&, const AttentionShape&,
                                               Dtype compute);

/// One line: "cudnn 9.14.0", "cublaslt+softmax (cuDNN's attention is of 16-bit types)".
[[nodiscard]] std::string text_of(const AttentionChoice&);

}  // namespace zeropp::nn::cuda_ops

#include "kernels/nn/nn_ops.hpp"

#include "kernels/nn/cuda/operations.hpp"

namespace zeropp::nn {

namespace {

/// Rows of logits begin at multiples of this many elements, so that products read them 16 bytes at
/// a time whatever the vocabulary.
constexpr std::size_t kLogitsAlignment = 64;

}  // namespace

const NnOps* cuda_nn_ops() {
  static constexpr NnOps kOps{
      .activation_dtype = [](Dtype compute) { return compute; },
      .logits_stride =
          [](std::size_t vocab) {
            return (vocab + kLogitsAlignment - 1) / kLogitsAlignment * kLogitsAlignment;
          },
      .embedding_forward = cuda_ops::embedding_forward,
      .embedding_backward = cuda_ops::embedding_backward,
      .embedding_workspace = cuda_ops::embedding_workspace,
      .layernorm_forward = cuda_ops::layernorm_forward,
      .layernorm_backward = cuda_ops::layernorm_backward,
      .layernorm_workspace = cuda_ops::layernorm_workspace,
      .linear_forward = cuda_ops::linear_forward,
      .linear_gelu_forward = cuda_ops::linear_gelu_forward,
      .linear_backward = cuda_ops::linear_backward,
      .linear_workspace = cuda_ops::linear_workspace,
      .attention_forward = cuda_ops::attention_forward,
      .attention_backward = cuda_ops::attention_backward,
      .attention_saved_bytes = cuda_ops::attention_saved_bytes,
      .attention_workspace = cuda_ops::attention_workspace,
      .attention_name = cuda_ops::attention_name,
      .cross_entropy = cuda_ops::cross_entropy,
      .add_mean = cuda_ops::add_mean,
      .take_total = cuda_ops::take_total,
  };
  return &kOps;
}

}  // namespace zeropp::nn

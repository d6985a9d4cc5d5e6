#include "kernels/nn/nn_ops.hpp"

#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda_sizes.hpp"

namespace zeropp::nn {

const NnOps* cuda_nn_ops() {
  static constexpr NnOps kOps{
      .activation_dtype = [](Dtype compute) { return compute; },
      .logits_stride = cuda_sizes::logits_stride,
      .embedding_forward = cuda_ops::embedding_forward,
      .embedding_backward = cuda_ops::embedding_backward,
      .embedding_workspace = cuda_ops::embedding_workspace,
      .layernorm_forward = cuda_ops::layernorm_forward,
      .layernorm_backward = cuda_ops::layernorm_backward,
      .layernorm_workspace = cuda_sizes::layernorm_workspace,
      .linear_forward = cuda_ops::linear_forward,
      .linear_gelu_forward = cuda_ops::linear_gelu_forward,
      .linear_backward = cuda_ops::linear_backward,
      .linear_workspace = cuda_sizes::linear_workspace,
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

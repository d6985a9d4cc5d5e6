#include "kernels/nn/nn_ops.hpp"

#include "kernels/nn/host/operations.hpp"

namespace zeropp::nn {

const NnOps& host_nn_ops() {
  static constexpr NnOps kOps{
      .activation_dtype = [](Dtype) { return Dtype::fp32; },
      .logits_stride = [](std::size_t vocab) { return vocab; },
      .embedding_forward = host::embedding_forward,
      .embedding_backward = host::embedding_backward,
      .embedding_workspace = host::embedding_workspace,
      .layernorm_forward = host::layernorm_forward,
      .layernorm_backward = host::layernorm_backward,
      .layernorm_workspace = host::layernorm_workspace,
      .linear_forward = host::linear_forward,
      .linear_gelu_forward = host::linear_gelu_forward,
      .linear_backward = host::linear_backward,
      .linear_workspace = host::linear_workspace,
      .attention_forward = host::attention_forward,
      .attention_backward = host::attention_backward,
      .attention_saved_bytes = host::attention_saved_bytes,
      .attention_workspace = host::attention_workspace,
      .attention_name = host::attention_name,
      .cross_entropy = host::cross_entropy,
      .add_mean = host::add_mean,
      .take_total = host::take_total,
  };
  return kOps;
}

}  // namespace zeropp::nn

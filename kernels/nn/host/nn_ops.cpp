#include "kernels/nn/nn_ops.hpp"

#include "kernels/nn/host/operations.hpp"

namespace zeropp::nn {

const NnOps& host_nn_ops() {
  static constexpr NnOps kOps{
      .embedding_forward = host::embedding_forward,
      .embedding_backward = host::embedding_backward,
      .layernorm_forward = host::layernorm_forward,
      .layernorm_backward = host::layernorm_backward,
      .linear_forward = host::linear_forward,
      .linear_backward = host::linear_backward,
      .linear_workspace = host::linear_workspace,
      .gelu_forward = host::gelu_forward,
      .gelu_backward = host::gelu_backward,
      .attention_forward = host::attention_forward,
      .attention_backward = host::attention_backward,
      .attention_saved_bytes = host::attention_saved_bytes,
      .attention_workspace = host::attention_workspace,
      .cross_entropy = host::cross_entropy,
      .add_mean = host::add_mean,
      .take_total = host::take_total,
  };
  return kOps;
}

}  // namespace zeropp::nn

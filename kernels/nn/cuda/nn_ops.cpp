#include "kernels/nn/nn_ops.hpp"

#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda_sizes.hpp"

namespace zeropp::nn {

namespace {

constexpr NnOps table() {
  NnOps ops{};
  ops.activation_dtype = [](Dtype compute) { return compute; };
  ops.logits_stride = cuda_sizes::logits_stride;
  ops.embedding_forward = cuda_ops::embedding_forward;
  ops.embedding_backward = cuda_ops::embedding_backward;
  ops.embedding_workspace = cuda_ops::embedding_workspace;
  ops.norm_forward = cuda_ops::norm_forward;
  ops.norm_backward = cuda_ops::norm_backward;
  ops.norm_workspace = cuda_sizes::norm_workspace;
  ops.linear_forward = cuda_ops::linear_forward;
  ops.linear_gelu_forward = cuda_ops::linear_gelu_forward;
  ops.linear_backward = cuda_ops::linear_backward;
  ops.linear_workspace = cuda_sizes::linear_workspace;
  ops.swiglu_forward = cuda_ops::swiglu_forward;
  ops.swiglu_backward = cuda_ops::swiglu_backward;
  ops.rotary = cuda_ops::rotary;
  ops.attention_forward = cuda_ops::attention_forward;
  ops.attention_backward = cuda_ops::attention_backward;
  ops.attention_saved_bytes = cuda_ops::attention_saved_bytes;
  ops.attention_workspace = cuda_ops::attention_workspace;
  ops.attention_name = cuda_ops::attention_name;
  ops.cross_entropy = cuda_ops::cross_entropy;
  ops.add_mean = cuda_ops::add_mean;
  ops.take_total = cuda_ops::take_total;
  return ops;
}

}  // namespace

const NnOps* cuda_nn_ops() {
  static constexpr NnOps kOps = table();
  return &kOps;
}

}  // namespace zeropp::nn

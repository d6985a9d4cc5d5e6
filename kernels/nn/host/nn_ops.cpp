#include "kernels/nn/nn_ops.hpp"

#include "kernels/nn/host/operations.hpp"

namespace zeropp::nn {

namespace {

constexpr NnOps table() {
  NnOps ops{};
  ops.activation_dtype = [](Dtype) { return Dtype::fp32; };
  ops.logits_stride = [](std::size_t vocab) { return vocab; };
  ops.embedding_forward = host::embedding_forward;
  ops.embedding_backward = host::embedding_backward;
  ops.embedding_workspace = host::embedding_workspace;
  ops.norm_forward = host::norm_forward;
  ops.norm_backward = host::norm_backward;
  ops.norm_workspace = host::norm_workspace;
  ops.linear_forward = host::linear_forward;
  ops.linear_gelu_forward = host::linear_gelu_forward;
  ops.linear_backward = host::linear_backward;
  ops.linear_workspace = host::linear_workspace;
  ops.swiglu_forward = host::swiglu_forward;
  ops.swiglu_backward = host::swiglu_backward;
  ops.rotary = host::rotary;
  ops.attention_forward = host::attention_forward;
  ops.attention_backward = host::attention_backward;
  ops.attention_saved_bytes = host::attention_saved_bytes;
  ops.attention_workspace = host::attention_workspace;
  ops.attention_name = host::attention_name;
  ops.cross_entropy = host::cross_entropy;
  ops.add_mean = host::add_mean;
  ops.take_total = host::take_total;
  return ops;
}

}  // namespace

const NnOps& host_nn_ops() {
  static constexpr NnOps kOps = table();
  return kOps;
}

}  // namespace zeropp::nn

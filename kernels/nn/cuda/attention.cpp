// Which of the two attentions runs: cuDNN's where it takes the shape, else the products. cuDNN
// takes no sequence of a single token, so that what is kept and the workspace have room for those
// too.
#include <algorithm>

#include "kernels/nn/cuda/attention_path.hpp"
#include "kernels/nn/cuda/operations.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

const AttentionPath& path_for(const AttentionShape& shape, Dtype compute) {
  const AttentionPath* const fused = fused_attention().path;
  return fused != nullptr && fused->refusal(shape, compute).empty() ? *fused : product_attention();
}

AttentionShape single_token(AttentionShape shape) {
  shape.length = std::min<std::size_t>(shape.length, 1);
  return shape;
}

}  // namespace

void attention_forward(const NnContext& context, const AttentionShape& shape, ConstView qkv,
                       View saved, View y) {
  path_for(shape, qkv.dtype).forward(context, shape, qkv, saved, y);
}

void attention_backward(const NnContext& context, const AttentionShape& shape, ConstView dy,
                        ConstView qkv, ConstView saved, ConstView y, View d_qkv) {
  path_for(shape, qkv.dtype).backward(context, shape, dy, qkv, saved, y, d_qkv);
}

std::size_t attention_saved_bytes(const AttentionShape& shape, Dtype compute) {
  return std::max(path_for(shape, compute).saved_bytes(shape, compute),
                  product_attention().saved_bytes(single_token(shape), compute));
}

std::size_t attention_workspace(const AttentionShape& shape, Dtype compute) {
  const std::size_t bytes =
      std::max(path_for(shape, compute).workspace_bytes(shape, compute),
               product_attention().workspace_bytes(single_token(shape), compute));
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

std::string attention_name(const AttentionShape& shape, Dtype compute) {
  return path_for(shape, compute).name();
}

}  // namespace zeropp::nn::cuda_ops

// Which of the two attentions runs: cuDNN's where it takes the longest sequences of a use, else the
// products. cuDNN takes no sequence of a single token, so that what is kept and the workspace have
// room for those too.
#include <algorithm>
#include <utility>

#include "kernels/nn/cuda/attention_path.hpp"
#include "kernels/nn/cuda/operations.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr std::size_t kSingleToken = 1;

const AttentionPath& path_for(const AttentionShape& shape, Dtype compute) {
  return choose_attention(fused_attention(), shape, compute).path;
}

AttentionShape single_token(AttentionShape shape) {
  shape.length = std::min(shape.length, kSingleToken);
  return shape;
}

}  // namespace

AttentionChoice choose_attention(const FusedAttention& fused, const AttentionShape& shape,
                                 Dtype compute) {
  if (fused.path == nullptr) return {product_attention(), fused.absence};
  if (shape.length <= kSingleToken && shape.longest > kSingleToken) {
    return {product_attention(), "a sequence has a single token"};
  }
  AttentionShape decisive = shape;
  decisive.length = std::max(shape.length, shape.longest);
  std::string refusal = fused.path->refusal(decisive, compute);
  if (refusal.empty()) return {*fused.path, {}};
  return {product_attention(), std::move(refusal)};
}

std::string text_of(const AttentionChoice& choice) {
  std::string text = choice.path.name();
  if (!choice.reason.empty()) text += " (" + choice.reason + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');  // libraries may give several lines
  return text;
}

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
  return text_of(choose_attention(fused_attention(), shape, compute));
}

}  // namespace zeropp::nn::cuda_ops

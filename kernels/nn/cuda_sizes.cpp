#include "kernels/nn/cuda_sizes.hpp"

#include <algorithm>

namespace zeropp::nn::cuda_sizes {

namespace {

constexpr std::size_t kMultiprocessors = 132;  ///< of a Hopper

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
constexpr std::size_t aligned(std::size_t bytes) { return ceil_div(bytes, 256) * 256; }

AttentionShape longest_of(AttentionShape shape) {
  shape.length = std::max(shape.length, shape.longest);
  return shape;
}

AttentionShape single_token(AttentionShape shape) {
  shape.length = std::min<std::size_t>(shape.length, 1);
  return shape;
}

/// Workspace of the backward, which is more than the forward's: an ordered one takes a sequence at
/// a time (dS, a value a row, and the statistics); else shares of dQ are added in any order (dQ in
/// fp32, and a value a row). With grouped queries dK and dV of every query head lie there before
/// they are summed. Compared with cuDNN's for lengths that are multiples of 128.
std::size_t fused_attention_workspace(const AttentionShape& shape) {
  constexpr std::size_t kFrontEnd = 256;
  const std::size_t of_sequence = shape.heads * shape.length * sizeof(float);
  const std::size_t rows = shape.deterministic ? shape.length : shape.rows();
  const std::size_t queries = rows * shape.queries();
  const std::size_t apart = shape.group() > 1 ? 2 * queries * size_of(Dtype::bf16) : 0;
  if (shape.deterministic) {
    return shape.heads * shape.length * shape.length * size_of(Dtype::bf16) + of_sequence +
           aligned(of_sequence) + apart + kFrontEnd + kSmallArrays;
  }
  return queries * sizeof(float) + shape.sequences * of_sequence + apart + kFrontEnd + kSmallArrays;
}

std::size_t attention_saved_bytes(const AttentionShape& shape, Dtype compute) {
  const std::size_t bytes = may_fuse_attention(longest_of(shape), compute)
                                ? fused_attention_saved(shape)
                                : product_attention_saved(shape, compute);
  return std::max(bytes, product_attention_saved(single_token(shape), compute));
}

std::size_t attention_workspace(const AttentionShape& shape, Dtype compute) {
  const std::size_t bytes = may_fuse_attention(longest_of(shape), compute)
                                ? fused_attention_workspace(shape)
                                : product_attention_workspace(shape, compute);
  return ceil_div(std::max(bytes, product_attention_workspace(single_token(shape), compute)),
                  sizeof(float));
}

/// Three arrays of rows, and scratch of CUB's sort: a copy of keys and values, and counts of digits
/// for each tile of some thousands of rows.
std::size_t embedding_workspace(const EmbeddingShape& shape) {
  constexpr std::size_t kCounts = std::size_t{1} << 16U;
  return 6 * (shape.sequences * shape.length) + kCounts;
}

}  // namespace

std::size_t logits_stride(std::size_t vocab) { return ceil_div(vocab, 64) * 64; }

std::size_t norm_shares(std::size_t rows) { return std::min(rows, kMultiprocessors); }

std::size_t norm_workspace(std::size_t rows, std::size_t hidden) {
  return 2 * norm_shares(rows) * hidden;
}

std::size_t column_groups(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kColumnsOfBlock = 32 * 16 / size_of(Dtype::bf16);  // 16 bytes a lane
  const std::size_t most = kColumnBlocks * kMultiprocessors /
                           std::max<std::size_t>(1, ceil_div(columns, kColumnsOfBlock));
  return std::min(ceil_div(rows, kColumnRowsInFlight * kColumnWarps),
                  std::max<std::size_t>(1, most));
}

std::size_t column_sums_workspace(const LinearShape& shape) {
  return column_groups(shape.rows, shape.out) * shape.out;
}

std::size_t linear_workspace(const LinearShape& shape, Dtype /*compute*/) {
  return std::max(kProductWorkspace / sizeof(float), column_sums_workspace(shape));
}

std::size_t attention_square(const AttentionShape& shape, Dtype type) {
  return aligned(shape.heads * shape.length * shape.length * size_of(type));
}

std::size_t product_attention_saved(const AttentionShape& shape, Dtype compute) {
  return shape.sequences * attention_square(shape, compute);
}

std::size_t product_attention_workspace(const AttentionShape& shape, Dtype compute) {
  return kProductWorkspace + attention_square(shape, Dtype::fp32) +
         attention_square(shape, compute);
}

bool may_fuse_attention(const AttentionShape& shape, Dtype compute) {
  return size_of(compute) == 2 && shape.head_width % 8 == 0 && shape.length > 1;
}

std::size_t fused_attention_saved(const AttentionShape& shape) {
  return shape.sequences * shape.heads * shape.length * sizeof(float);
}

const NnSizes& planned() {
  static constexpr NnSizes kSizes{
      .activation_dtype = [](Dtype compute) { return compute; },
      .logits_stride = logits_stride,
      .embedding_workspace = embedding_workspace,
      .norm_workspace = norm_workspace,
      .linear_workspace = linear_workspace,
      .attention_saved_bytes = attention_saved_bytes,
      .attention_workspace = attention_workspace,
  };
  return kSizes;
}

}  // namespace zeropp::nn::cuda_sizes

// Memory of the GPU's operations, in closed form: the operations reserve these bytes on a GPU, and
// a plan counts them on a machine without CUDA. Two numbers depend on other libraries. CUB's
// scratch of a sort is bounded. The memory that cuDNN's attention takes beside its documented
// buffers is as in version 9.14 on Hopper, for lengths that are multiples of 128.
#pragma once

#include <cstddef>

#include "kernels/nn/nn_sizes.hpp"

namespace zeropp::nn::cuda_sizes {

/// Bytes at the begin of NnContext::workspace that a matrix product may use: what NVIDIA recommends
/// for Hopper.
inline constexpr std::size_t kProductWorkspace = std::size_t{32} << 20U;

/// Rows of logits begin at multiples of 64 elements, so that products read them 16 bytes at a time
/// whatever the vocabulary.
std::size_t logits_stride(std::size_t vocab);

/// Shares of the sums over rows that a norm's gradients are: one for each
/// multiprocessor of a Hopper.
std::size_t norm_shares(std::size_t rows);
/// Elements.
std::size_t norm_workspace(std::size_t rows, std::size_t hidden);

/// Rows that a block of the sums of columns reads at once: warps, and rows in flight of each.
inline constexpr unsigned kColumnWarps = 8;
inline constexpr int kColumnRowsInFlight = 8;
inline constexpr unsigned kColumnBlocks = 4;  ///< of a multiprocessor
/// Groups of rows with a share of the sums each: as many as make the blocks that a Hopper runs at
/// once. More would not read faster, and the second pass would have more to read.
std::size_t column_groups(std::size_t rows, std::size_t columns);
/// Elements.
std::size_t column_sums_workspace(const LinearShape& shape);
std::size_t linear_workspace(const LinearShape& shape, Dtype compute);

/// Bytes of [heads, T, T] in `type`, to the next multiple of 256.
std::size_t attention_square(const AttentionShape& shape, Dtype type);
/// Bytes that attention by products keeps, and its workspace.
std::size_t product_attention_saved(const AttentionShape& shape, Dtype compute);
std::size_t product_attention_workspace(const AttentionShape& shape, Dtype compute);

/// Whether cuDNN's attention is asked whether it has an engine: 16-bit types, 16 bytes at a time,
/// and more than a single token.
bool may_fuse_attention(const AttentionShape& shape, Dtype compute);
/// Bytes that fused attention keeps: log-sum-exp of the rows of scores.
std::size_t fused_attention_saved(const AttentionShape& shape);
/// Room for small arrays that cuDNN's front end adds where a length is no multiple of 128, so that
/// a smaller shape never needs more.
inline constexpr std::size_t kSmallArrays = std::size_t{64} << 10U;

/// Sizes for plans, which assume cuDNN with an engine wherever it may be asked for one.
const NnSizes& planned();

}  // namespace zeropp::nn::cuda_sizes

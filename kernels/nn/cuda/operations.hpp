// The GPU's operations by file; nn_ops.cpp puts them into the table. Signatures and meaning:
// kernels/nn/nn_ops.hpp. All of them read and write activations and weights of one dtype, the
// compute dtype, enqueue on the context's stream and give the same bits in every run;
// attention_backward does so where the context asks for it.
#pragma once

#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn::cuda_ops {

// embedding.cu
void embedding_forward(const NnContext&, const EmbeddingShape&, const std::int32_t* tokens,
                       ConstView token_table, ConstView position_table, View y);
void embedding_backward(const NnContext&, const EmbeddingShape&, const std::int32_t* tokens,
                        ConstView dy, View d_token_table, View d_position_table);
std::size_t embedding_workspace(const EmbeddingShape&);

// norm.cu, norm_backward.cu
void norm_forward(const NnContext&, const NormShape&, ConstView x, ConstView weight, ConstView bias,
                  View y, View mean, View rstd);
void norm_backward(const NnContext&, const NormShape&, ConstView dy, ConstView x, ConstView weight,
                   ConstView mean, ConstView rstd, bool accumulate_dx, View dx, bool accumulate,
                   View d_weight, View d_bias);

// swiglu.cu
void swiglu_forward(const NnContext&, std::size_t rows, std::size_t width, ConstView gate_up,
                    View y);
void swiglu_backward(const NnContext&, std::size_t rows, std::size_t width, ConstView dy,
                     View gate_up);

// rotary.cu
void rotary(const NnContext&, const AttentionShape&, ConstView table, bool backward, View qkv);

// linear.cpp
void linear_forward(const NnContext&, const LinearShape&, ConstView x, ConstView weight,
                    ConstView bias, ConstView residual, View y);
void linear_gelu_forward(const NnContext&, const LinearShape&, ConstView x, ConstView weight,
                         ConstView bias, View pre, View y);
void linear_backward(const NnContext&, const LinearShape&, ConstView dy, ConstView x,
                     ConstView weight, ConstView gelu_input, View dx, bool accumulate,
                     View d_weight, View d_bias);

// attention
void attention_forward(const NnContext&, const AttentionShape&, ConstView qkv, View saved, View y);
void attention_backward(const NnContext&, const AttentionShape&, ConstView dy, ConstView qkv,
                        ConstView saved, ConstView y, View d_qkv);
std::size_t attention_saved_bytes(const AttentionShape&, Dtype compute);
std::size_t attention_workspace(const AttentionShape&, Dtype compute);
std::string attention_name(const AttentionShape&, Dtype compute);

// cross_entropy.cu
void cross_entropy(const NnContext&, std::size_t rows, std::size_t vocab, std::size_t stride,
                   const std::int32_t* targets, bool gradient, float loss_scale, View logits,
                   View row_loss);

// mean.cu
void add_mean(const NnContext&, ConstView values, double* total);
void take_total(const NnContext&, double* total, double* taken);

}  // namespace zeropp::nn::cuda_ops

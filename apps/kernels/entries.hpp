// The kernels, by the file that defines them; kernels.cpp puts them into the table.
#pragma once

#include "apps/kernels/kernel.hpp"

namespace zeropp::kernels {

// memory.cpp
extern const Kernel copy;
extern const Kernel clear;
extern const Kernel convert;
// codec.cpp
extern const Kernel encode;
extern const Kernel decode;
extern const Kernel decode_add;
extern const Kernel reorder_encode;
// codec_sums.cpp
extern const Kernel decode_reduce;
extern const Kernel decode_reduce_encode;
// exact.cpp
extern const Kernel exact_count;
extern const Kernel exact_encode;
extern const Kernel exact_decode;
// optimizer.cpp
extern const Kernel adamw;
extern const Kernel adamw_encode;
extern const Kernel gradient_norm;
extern const Kernel add;
// embedding.cpp
extern const Kernel embedding_forward;
extern const Kernel embedding_backward;
// norm.cpp
extern const Kernel layernorm_forward;
extern const Kernel layernorm_backward;
extern const Kernel rmsnorm_forward;
extern const Kernel rmsnorm_backward;
// linear.cpp
extern const Kernel linear_forward;
extern const Kernel linear_gelu_forward;
extern const Kernel linear_backward;
// swiglu.cpp
extern const Kernel swiglu_forward;
extern const Kernel swiglu_backward;
// rotary.cpp
extern const Kernel rotary;
// attention.cpp
extern const Kernel attention_forward;
extern const Kernel attention_backward;
// cross_entropy.cpp
extern const Kernel cross_entropy;

}  // namespace zeropp::kernels

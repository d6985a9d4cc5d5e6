// The pairs of formats that have a one-pass decode_reduce_encode.
#pragma once

#include <string_view>

#include "kernels/codec/codec.hpp"

namespace zeropp::codec {

/// Null when the pair runs composed.
ReduceEncode::Fused find_fused(Backend backend, std::string_view from, std::string_view to);

/// Fused kernel of a pair on CUDA: null when it runs composed, and always in a build without CUDA.
ReduceEncode::Fused find_fused_cuda(std::string_view from, std::string_view to);

}  // namespace zeropp::codec

// The functions of the GPU's table (kernels/optim/optim_ops.hpp documents them), a file each.
#pragma once

#include "kernels/optim/optim_ops.hpp"

namespace zeropp::optim::cuda_ops {

void add(std::size_t n, const float* source, float* destination, StreamHandle stream);
void sum_of_squares(float factor, std::span<const NormPiece> pieces,
                    std::span<const NormArray> arrays, StreamHandle stream);
void initialize(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                float constant, float scale, float* weights, StreamHandle stream);

}  // namespace zeropp::optim::cuda_ops

// Stands for kernels/nn/cuda in a build without CUDA.
#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn {
const NnOps* cuda_nn_ops() { return nullptr; }
}  // namespace zeropp::nn

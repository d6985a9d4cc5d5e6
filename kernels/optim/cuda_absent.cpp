// Stands for kernels/optim/cuda in a build without CUDA.
#include "kernels/optim/optim_ops.hpp"

namespace zeropp::optim {
const OptimOps* cuda_optim_ops() { return nullptr; }
}  // namespace zeropp::optim

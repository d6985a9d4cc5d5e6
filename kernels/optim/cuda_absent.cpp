// Stands for kernels/optim/cuda in a build without CUDA.
#include "kernels/optim/optim_ops.hpp"
#include "kernels/optim/registry.hpp"

namespace zeropp::optim {
const OptimOps* cuda_optim_ops() { return nullptr; }
UpdatePieces cuda_update(std::string_view) { return nullptr; }
}  // namespace zeropp::optim

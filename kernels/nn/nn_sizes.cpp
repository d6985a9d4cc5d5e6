#include "kernels/nn/nn_sizes.hpp"

#include "kernels/nn/cuda_sizes.hpp"
#include "kernels/nn/nn_ops.hpp"

namespace zeropp::nn {

const NnSizes& planned_sizes(Backend backend) {
  return backend == Backend::host ? host_nn_ops() : cuda_sizes::planned();
}

}  // namespace zeropp::nn

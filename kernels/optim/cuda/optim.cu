// The GPU's table of optimizer kernels, and the element by element ones.
#include "kernels/core/counter_rng.hpp"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/optim/cuda/operations.hpp"
#include "kernels/optim/cuda/quads.cuh"

namespace zeropp::optim {

namespace cuda_ops {

namespace {

/// Four elements a turn where both arrays are aligned to 16 bytes; a tail, or odd arrays, one.
struct Add {
  std::size_t n;
  const float* source;
  float* destination;

  __device__ void operator()(std::size_t q) const {
    if (all_aligned(16, source, destination) && 4 * q + 4 <= n) {
      const float4 a = quad(source, q);
      const float4 b = quad(destination, q);
      quad(destination, q) = {b.x + a.x, b.y + a.y, b.z + a.z, b.w + a.w};
    } else {
      for (std::size_t i = 4 * q; i < n && i < 4 * q + 4; ++i) destination[i] += source[i];
    }
  }
};

struct Initialize {
  std::uint64_t seed;
  std::uint64_t tensor;
  std::size_t first;
  float constant;
  float scale;
  float* weights;
  __device__ void operator()(std::size_t i) const {
    weights[i] =
        scale == 0.0F ? constant : fmaf(scale, standard_normal(seed, tensor, first + i), constant);
  }
};

}  // namespace

void add(std::size_t n, const float* source, float* destination, StreamHandle stream) {
  cuda::for_each((n + 3) / 4, stream, Add{n, source, destination});
}

void initialize(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                float constant, float scale, float* weights, StreamHandle stream) {
  cuda::for_each(n, stream, Initialize{seed, tensor, first, constant, scale, weights});
}

}  // namespace cuda_ops

const OptimOps* cuda_optim_ops() {
  static constexpr OptimOps ops{.add = cuda_ops::add,
                                .sum_of_squares = cuda_ops::sum_of_squares,
                                .initialize = cuda_ops::initialize};
  return &ops;
}

}  // namespace zeropp::optim

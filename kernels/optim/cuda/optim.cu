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

/// Four elements of a row a turn; memory is written only where something overflows.
struct Overflow {
  float limit;
  std::size_t quads;  ///< of a row
  std::size_t stride;
  std::size_t count;
  float* values;

  __device__ bool beyond(float value) const { return fabsf(value) > limit; }
  __device__ void operator()(std::size_t turn) const {
    const std::size_t row = turn / quads;
    const std::size_t q = turn - row * quads;
    float* const from = values + row * stride;
    if (all_aligned(16, from) && 4 * q + 4 <= count) {
      const float4 v = quad(static_cast<const float*>(from), q);
      if (!(beyond(v.x) || beyond(v.y) || beyond(v.z) || beyond(v.w))) return;
    }
    for (std::size_t i = 4 * q; i < count && i < 4 * q + 4; ++i) {
      if (beyond(from[i])) from[i] = copysignf(INFINITY, from[i]);
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

void overflow(float limit, std::size_t rows, std::size_t stride, std::size_t count, float* values,
              StreamHandle stream) {
  const std::size_t quads = (count + 3) / 4;
  cuda::for_each(rows * quads, stream, Overflow{limit, quads, stride, count, values});
}

void initialize(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                float constant, float scale, float* weights, StreamHandle stream) {
  cuda::for_each(n, stream, Initialize{seed, tensor, first, constant, scale, weights});
}

}  // namespace cuda_ops

const OptimOps* cuda_optim_ops() {
  static constexpr OptimOps ops{.add = cuda_ops::add,
                                .overflow = cuda_ops::overflow,
                                .sum_of_squares = cuda_ops::sum_of_squares,
                                .initialize = cuda_ops::initialize};
  return &ops;
}

}  // namespace zeropp::optim

// The optimizer's kernels on the GPU: the host's arithmetic, element by element.

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/optim/optim_ops.hpp"

namespace zeropp::optim {

namespace {

using cuda::for_each;

/// Four elements a turn where all arrays are aligned to 16 bytes; a tail, or odd arrays, one.
template <class Body>
struct ByFour {
  Body body;
  std::size_t n;
  __device__ void operator()(std::size_t turn) const {
    const std::size_t first = 4 * turn;
    if (body.aligned() && first + 4 <= n) {
      body.four(first);
    } else {
      for (std::size_t i = first; i < n && i < first + 4; ++i) body.one(i);
    }
  }
};

template <class Body>
void for_each_four(std::size_t n, StreamHandle stream, Body body) {
  for_each((n + 3) / 4, stream, ByFour<Body>{body, n});
}

template <class... Pointers>
__device__ bool all_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) | ...) & 15U) == 0;
}

__device__ float4& quad(float* values, std::size_t i) {
  return *reinterpret_cast<float4*>(values + i);
}
__device__ const float4& quad(const float* values, std::size_t i) {
  return *reinterpret_cast<const float4*>(values + i);
}

struct AdamW {
  AdamWConstants c;
  float decay_factor;
  const float* gradient;
  float* weight;
  float* m;
  float* v;
  View shard;  ///< 16-bit weights, or empty

  __device__ bool aligned() const {
    return all_aligned(gradient, weight, m, v) &&
           (reinterpret_cast<std::uintptr_t>(shard.data) & 7U) == 0;
  }
  __device__ void one(std::size_t i) const {
    adamw_update(gradient[i], decay_factor, c, weight[i], m[i], v[i]);
    cut(i, weight[i]);
  }
  __device__ void four(std::size_t i) const {
    const float4 g = quad(gradient, i);
    float4 w = quad(weight, i);
    float4 first = quad(m, i);
    float4 second = quad(v, i);
    adamw_update(g.x, decay_factor, c, w.x, first.x, second.x);
    adamw_update(g.y, decay_factor, c, w.y, first.y, second.y);
    adamw_update(g.z, decay_factor, c, w.z, first.z, second.z);
    adamw_update(g.w, decay_factor, c, w.w, first.w, second.w);
    quad(weight, i) = w;
    quad(m, i) = first;
    quad(v, i) = second;
    if (shard.count == 0) return;
    const float values[4] = {w.x, w.y, w.z, w.w};
    alignas(8) std::uint16_t bits[4];
    for (int k = 0; k < 4; ++k) {
      bits[k] = shard.dtype == Dtype::bf16 ? saturating_cast<Bf16>(values[k]).bits
                                           : saturating_cast<Fp16>(values[k]).bits;
    }
    *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(shard.data) + i) =
        *reinterpret_cast<const uint2*>(bits);
  }
  __device__ void cut(std::size_t i, float value) const {
    if (shard.count == 0) return;
    if (shard.dtype == Dtype::bf16) {
      static_cast<Bf16*>(shard.data)[i] = saturating_cast<Bf16>(value);
    } else {
      static_cast<Fp16*>(shard.data)[i] = saturating_cast<Fp16>(value);
    }
  }
};

void adamw(const AdamWConstants& c, bool decay, std::size_t n, const float* gradient, float* weight,
           float* m, float* v, View shard, StreamHandle stream) {
  for_each_four(n, stream, AdamW{c, decay ? c.decay_factor : 1.0F, gradient, weight, m, v, shard});
}

struct Add {
  const float* source;
  float* destination;
  __device__ bool aligned() const { return all_aligned(source, destination); }
  __device__ void one(std::size_t i) const { destination[i] += source[i]; }
  __device__ void four(std::size_t i) const {
    const float4 a = quad(source, i);
    float4 b = quad(destination, i);
    b = {b.x + a.x, b.y + a.y, b.z + a.z, b.w + a.w};
    quad(destination, i) = b;
  }
};

void add(std::size_t n, const float* source, float* destination, StreamHandle stream) {
  for_each_four(n, stream, Add{source, destination});
}

struct Scale {
  float factor;
  float* values;
  __device__ bool aligned() const { return all_aligned(values); }
  __device__ void one(std::size_t i) const { values[i] *= factor; }
  __device__ void four(std::size_t i) const {
    float4 x = quad(values, i);
    x = {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
    quad(values, i) = x;
  }
};

void scale(std::size_t n, float factor, float* values, StreamHandle stream) {
  for_each_four(n, stream, Scale{factor, values});
}

__device__ double square_of(float x) {
  const double wide = x;
  return wide * wide;
}
__device__ double term_of(const float* values, std::size_t i) { return square_of(values[i]); }
__device__ double term_of(const double* sums, std::size_t i) { return sums[i]; }

/// A warp a block of 1024 terms: lane l adds terms l, l + 32, ..., then lanes by halves, as on the
/// host.
template <class Source>
__global__ void block_sums_kernel(std::size_t n, Source source, double* sums) {
  const std::size_t blocks = norm_blocks(n);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * (blockDim.x / kNormLanes);
  const unsigned lane = threadIdx.x % kNormLanes;
  for (std::size_t block = static_cast<std::size_t>(blockIdx.x) * (blockDim.x / kNormLanes) +
                           threadIdx.x / kNormLanes;
       block < blocks; block += step) {
    const std::size_t first = block * kNormBlock;
    const std::size_t last = first + kNormBlock < n ? first + kNormBlock : n;
    double sum = 0;
#pragma unroll 8
    for (std::size_t i = first + lane; i < last; i += kNormLanes) sum += term_of(source, i);
    for (unsigned half = kNormLanes / 2; half > 0; half /= 2) {
      sum += __shfl_down_sync(0xFFFFFFFFU, sum, half);
    }
    if (lane == 0) sums[block] = sum;
  }
}

template <class Source>
void block_sums(std::size_t n, Source source, double* sums, StreamHandle stream) {
  block_sums_kernel<<<cuda::grid_for(norm_blocks(n), 8), 8 * kNormLanes, 0,
                      cuda::stream_of(stream)>>>(n, source, sums);
  cuda::check_launch();
}

void sum_of_squares(std::size_t n, const float* values, double* scratch, double* sum,
                    StreamHandle stream) {
  if (n == 0) {
    cuda::check(cudaMemsetAsync(sum, 0, sizeof(double), cuda::stream_of(stream)));
    return;
  }
  std::size_t left = norm_blocks(n);
  double* sums = left > 1 ? scratch : sum;
  block_sums(n, values, sums, stream);
  while (left > 1) {
    const double* const terms = sums;
    const std::size_t count = left;
    left = norm_blocks(count);
    sums = left > 1 ? sums + count : sum;
    block_sums(count, terms, sums, stream);
  }
}

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

void initialize(std::uint64_t seed, std::uint64_t tensor, std::size_t first, std::size_t n,
                float constant, float scale_factor, float* weights, StreamHandle stream) {
  for_each(n, stream, Initialize{seed, tensor, first, constant, scale_factor, weights});
}

}  // namespace

const OptimOps* cuda_optim_ops() {
  static constexpr OptimOps ops{adamw, add, scale, sum_of_squares, initialize};
  return &ops;
}

}  // namespace zeropp::optim

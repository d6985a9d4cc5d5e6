// Rotary positions on the GPU, in place: one read and one write of queries and keys, a block a
// token. The table of angles stays in the L2 cache.
#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kPacks = 2;  ///< pairs of packs of a token for each thread

/// `half`: half of a head's width; `heads`: of queries and keys; `row`: columns of qkv.
template <class T, int W>
__global__ void rotary_kernel(unsigned length, unsigned half, unsigned heads, std::size_t row,
                              float sign, const float* table, T* qkv) {
  const float* const angles = table + static_cast<std::size_t>(blockIdx.x % length) * 2 * half;
  T* const token = qkv + blockIdx.x * row;
  const unsigned packs = half / W;
  for (unsigned k = threadIdx.x; k < heads * packs; k += blockDim.x) {
    const unsigned i = k % packs * W;
    T* const head = token + static_cast<std::size_t>(k / packs) * 2 * half + i;
    const Pack<T, W> a = load<W>(head);
    const Pack<T, W> b = load<W>(head + half);
    float first[W];
    float second[W];
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const float2 angle = *reinterpret_cast<const float2*>(angles + 2 * (i + e));
      const float s = sign * angle.y;
      first[e] = angle.x * a[e] - s * b[e];
      second[e] = angle.x * b[e] + s * a[e];
    }
    store(head, rounded<T>(first));
    store(head + half, rounded<T>(second));
  }
}

}  // namespace

void rotary(const NnContext& context, const AttentionShape& shape, ConstView table, bool backward,
            View qkv) {
  const float* const angles =
      elements<float>(table, shape.length * shape.head_width, "rotary table");
  require(qkv, shape.rows() * shape.qkv(), qkv.dtype, "rotary queries and keys");
  if (shape.rows() == 0) return;
  const std::size_t half = shape.head_width / 2;
  const std::size_t heads = shape.heads + shape.kv_heads;
  with_type(qkv.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const values = qkv.as<T>();
    const bool aligned =
        half % kPack<T> == 0 && rows_aligned<T>(shape.qkv(), {static_cast<const T*>(values)});
    with_pack<T>(aligned, [&](auto pack) {
      constexpr int kWidth = pack;
      const unsigned threads = threads_for(heads * half / kWidth, kPacks, kThreads);
      rotary_kernel<T, kWidth>
          <<<static_cast<unsigned>(shape.rows()), threads, 0, cuda::stream_of(context.stream)>>>(
              static_cast<unsigned>(shape.length), static_cast<unsigned>(half),
              static_cast<unsigned>(heads), shape.qkv(), backward ? -1.0F : 1.0F, angles, values);
      cuda::check_launch();
    });
  });
}

}  // namespace zeropp::nn::cuda_ops

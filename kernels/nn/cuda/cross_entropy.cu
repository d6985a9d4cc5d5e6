// Cross-entropy on the GPU: a block a row, which is read once for its statistics and once more,
// from the cache where it fits, for the gradient that replaces it.
#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/running_softmax.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kRowThreads = 512;

/// Rows lie `stride` apart. The last pack of a row may reach into the padding.
template <class T, int W>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_kernel(std::size_t vocab, std::size_t stride, const std::int32_t* targets,
                         bool gradient, float inverse_rows, T* logits, float* row_loss) {
  __shared__ RunningSoftmax scratch[32];
  const std::size_t r = blockIdx.x;
  T* const row = logits + r * stride;
  const auto target = static_cast<std::size_t>(targets[r]);
  const std::size_t step = static_cast<std::size_t>(blockDim.x) * W;
  const std::size_t begin = static_cast<std::size_t>(threadIdx.x) * W;

  RunningSoftmax softmax;
#pragma unroll 4
  for (std::size_t v = begin; v < vocab; v += step) {
    const Pack<T, W> pack = load<W>(row + v);
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values[i] = v + i < vocab ? to_float(pack.value[i]) : -INFINITY;
    }
    softmax.add(values);
  }
  const float at_target = to_float(row[target]);  // before any thread replaces it: join_block waits
  softmax.join_block(scratch);
  const float top = RunningSoftmax::base(softmax.largest);
  if (threadIdx.x == 0) row_loss[r] = logf(softmax.sum) - (at_target - top);
  if (!gradient) return;

  const float scale = inverse_rows / softmax.sum;
#pragma unroll 4
  for (std::size_t v = begin; v < stride; v += step) {
    Pack<T, W> pack = load<W>(row + v);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const std::size_t column = v + i;
      float value = column < vocab ? fast_exp(to_float(pack.value[i]) - top) * scale : 0.0F;
      if (column == target) value -= inverse_rows;
      pack.value[i] = saturating_cast<T>(value);
    }
    store(row + v, pack);
  }
}

}  // namespace

void cross_entropy(const NnContext& context, std::size_t rows, std::size_t vocab,
                   std::size_t stride, const std::int32_t* targets, bool gradient, View logits,
                   View row_loss) {
  float* const losses = elements<float>(row_loss, rows, "cross-entropy row loss");
  if (rows == 0) return;
  with_activation(logits.dtype, "cross-entropy", [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const values = elements<T>(logits, rows * stride, "cross-entropy logits");
    with_pack<T>(rows_aligned<T>(stride, {values}), [&](auto pack) {
      cross_entropy_kernel<T, pack>
          <<<static_cast<unsigned>(rows), kRowThreads, 0, cuda::stream_of(context.stream)>>>(
              vocab, stride, targets, gradient, 1.0F / static_cast<float>(rows), values, losses);
      cuda::check_launch();
    });
  });
}

}  // namespace zeropp::nn::cuda_ops

// A block a row; one read for the row's statistics, one read and one write for the result. Rows of
// odd lengths are not aligned, so that accesses are single elements, side by side in a warp.
#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/attention_softmax.hpp"
#include "kernels/nn/cuda/rows.cuh"
#include "kernels/nn/cuda/running_softmax.cuh"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kRowThreads = 128;

template <class T>
__global__ void forward_kernel(std::size_t length, const float* scores, T* probabilities) {
  __shared__ RunningSoftmax scratch[32];
  const std::size_t n = blockIdx.x % length + 1;
  const float* const in = scores + blockIdx.x * length;
  T* const out = probabilities + blockIdx.x * length;
  RunningSoftmax softmax;
  for (std::size_t j = threadIdx.x; j < n; j += kRowThreads) {
    const float value[1] = {in[j]};
    softmax.add(value);
  }
  softmax.join_block(scratch);
  const float top = RunningSoftmax::base(softmax.largest);
  const float inverse = 1.0F / softmax.sum;
  for (std::size_t j = threadIdx.x; j < length; j += kRowThreads) {
    out[j] = rounded<T>(j < n ? softmax_exp(in[j] - top) * inverse : 0.0F);
  }
}

template <class T>
__global__ void backward_kernel(std::size_t length, const T* probabilities,
                                const float* d_probabilities, T* d_scores) {
  __shared__ float scratch[1][32];
  const std::size_t n = blockIdx.x % length + 1;
  const T* const p = probabilities + blockIdx.x * length;
  const float* const d = d_probabilities + blockIdx.x * length;
  T* const out = d_scores + blockIdx.x * length;
  float dot[1] = {0.0F};
  for (std::size_t j = threadIdx.x; j < n; j += kRowThreads) dot[0] += to_float(p[j]) * d[j];
  row_sums(dot, scratch);
  for (std::size_t j = threadIdx.x; j < length; j += kRowThreads) {
    out[j] = rounded<T>(j < n ? to_float(p[j]) * (d[j] - dot[0]) : 0.0F);
  }
}

}  // namespace

void attention_softmax(std::size_t count, std::size_t length, const float* scores,
                       View probabilities, StreamHandle stream) {
  with_type(probabilities.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    forward_kernel<<<static_cast<unsigned>(count * length), kRowThreads, 0,
                     cuda::stream_of(stream)>>>(length, scores, probabilities.as<T>());
    cuda::check_launch();
  });
}

void attention_softmax_backward(std::size_t count, std::size_t length, ConstView probabilities,
                                const float* d_probabilities, View d_scores, StreamHandle stream) {
  with_type(probabilities.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    backward_kernel<<<static_cast<unsigned>(count * length), kRowThreads, 0,
                      cuda::stream_of(stream)>>>(length, probabilities.as<T>(), d_probabilities,
                                                 d_scores.as<T>());
    cuda::check_launch();
  });
}

}  // namespace zeropp::nn::cuda_ops

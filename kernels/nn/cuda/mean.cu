// The loss of a micro-batch from the losses of its rows, added up on the GPU until it is taken.
#include "kernels/core/cuda/launch.cuh"
#include "kernels/nn/cuda/operations.hpp"
#include "kernels/nn/cuda/views.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

constexpr unsigned kMeanThreads = 1024;

/// One block: thread i sums values i, i + 1024, ...; then the threads' sums by halves.
__global__ void __launch_bounds__(kMeanThreads)
    add_mean_kernel(std::size_t n, const float* values, double* total) {
  __shared__ double sums[kMeanThreads];
  double sum = 0.0;
  for (std::size_t i = threadIdx.x; i < n; i += kMeanThreads) sum += static_cast<double>(values[i]);
  sums[threadIdx.x] = sum;
  for (unsigned half = kMeanThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *total += sums[0] / static_cast<double>(n);
}

}  // namespace

void add_mean(const NnContext& context, ConstView values, double* total) {
  const float* const from = elements<float>(values, values.count, "mean input");
  add_mean_kernel<<<1, kMeanThreads, 0, cuda::stream_of(context.stream)>>>(values.count, from,
                                                                           total);
  cuda::check_launch();
}

void take_total(const NnContext& context, double* total, double* taken) {
  const cudaStream_t stream = cuda::stream_of(context.stream);
  cuda::check(cudaMemcpyAsync(taken, total, sizeof *taken, cudaMemcpyDeviceToHost, stream));
  cuda::check(cudaMemsetAsync(total, 0, sizeof *total, stream));
}

}  // namespace zeropp::nn::cuda_ops

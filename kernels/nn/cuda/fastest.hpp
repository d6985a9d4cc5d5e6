// Which of several ways to do the same work on the GPU is the fastest: measured, on a stream.
// Another run of the program may come to another answer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>

namespace zeropp::nn::cuda_ops {

/// The shortest of `times`, the first one's preferred: another must be more than 2 % shorter. A way
/// that cannot be gone has an infinite time. `times` is not empty.
[[nodiscard]] std::size_t shortest(std::span<const float> times);

/// The index of the fastest of `count` >= 1 ways, as shortest() chooses from the medians of five
/// times. `enqueue(i)` enqueues way i on the stream, any number of times over, and returns false
/// where there is no such way. Ways take turns, so that what disturbs the GPU meanwhile (other
/// streams, other ranks, its clock) disturbs all. Waits for the stream. Throws CudaError.
[[nodiscard]] std::size_t fastest(cudaStream_t stream, std::size_t count,
                                  const std::function<bool(std::size_t)>& enqueue);

}  // namespace zeropp::nn::cuda_ops

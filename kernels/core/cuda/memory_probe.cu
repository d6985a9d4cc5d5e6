// The passes of the memory probe on the GPU. Copies and writes are the driver's; reading takes 16
// bytes per thread and turn, four of them in flight.
#include <stdexcept>

#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/memory_probe.hpp"

namespace zeropp {

namespace {

using cuda::stream_of;

void require_device(const ConstView& view) {
  if (view.kind == MemoryKind::device) return;
  throw std::invalid_argument("memory probe: the GPU was given host memory");
}

void copy(ConstView source, View destination, StreamHandle stream) {
  require_device(source);
  require_device(destination);
  if (source.bytes() != destination.bytes()) {
    throw std::invalid_argument("memory probe: views of different sizes");
  }
  cuda::check(cudaMemcpyAsync(destination.data, source.data, source.bytes(),
                              cudaMemcpyDeviceToDevice, stream_of(stream)));
}

__device__ unsigned xor_of(uint4 words) { return words.x ^ words.y ^ words.z ^ words.w; }

__global__ void read_kernel(const uint4* from, std::size_t n, unsigned* result) {
  constexpr int kInFlight = 4;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (; i + (kInFlight - 1) * step < n; i += kInFlight * step) {
    uint4 words[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) words[k] = from[i + k * step];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) sum ^= xor_of(words[k]);
  }
  for (; i < n; i += step) sum ^= xor_of(from[i]);
  sum = __reduce_xor_sync(0xFFFFFFFFU, sum);
  if (threadIdx.x % 32 == 0) atomicXor(result, sum);
}

void read(ConstView source, View result, StreamHandle stream) {
  require_device(source);
  require_device(result);
  const std::size_t n = source.bytes() / sizeof(uint4);
  if (n == 0) return;
  read_kernel<<<cuda::grid_for(n), cuda::kThreads, 0, stream_of(stream)>>>(
      static_cast<const uint4*>(source.data), n, static_cast<unsigned*>(result.data));
  cuda::check_launch();
}

void write(View destination, StreamHandle stream) {
  require_device(destination);
  cuda::check(cudaMemsetAsync(destination.data, 0, destination.bytes(), stream_of(stream)));
}

}  // namespace

const MemoryProbe* cuda_memory_probe() {
  static constexpr MemoryProbe kProbe{.copy = copy, .read = read, .write = write};
  return &kProbe;
}

}  // namespace zeropp

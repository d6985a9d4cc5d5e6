// The kernel that raises flags in the memory of other GPUs: a thread a flag.
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/cuda/peer_flags.hpp"

namespace zeropp::cuda {

namespace {

// The maximum, and no store: a flag that was raised beyond all numbers, so that nobody waits for it
// any more, stays where it is.
__global__ void raise_kernel(std::uint64_t* const* pages, unsigned ranks, unsigned own,
                             unsigned index, std::uint64_t value) {
  const unsigned peer = threadIdx.x;
  if (peer >= ranks || peer == own) return;
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  // Earlier kernels of the stream come before this one; the fence makes their stores come before
  // the flag for every GPU of the system.
  __threadfence_system();
  atomicMax_system(reinterpret_cast<unsigned long long*>(pages[peer] + index),
                   static_cast<unsigned long long>(value));
}

}  // namespace

void raise_flags(std::uint64_t* const* pages, unsigned ranks, unsigned own, unsigned index,
                 std::uint64_t value, StreamHandle stream) {
  raise_kernel<<<1, ranks, 0, stream_of(stream)>>>(pages, ranks, own, index, value);
  check_launch();
}

}  // namespace zeropp::cuda

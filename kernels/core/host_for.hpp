// The parallel loops of the host kernels: Kokkos's, or with ZEROPP_OPENMP_LOOPS OpenMP's, for a
// library that is moved to other machines and starts no runtime of its own (lib/c).
#pragma once

#ifndef ZEROPP_OPENMP_LOOPS
#include <Kokkos_Core.hpp>
#endif
#include <algorithm>
#include <cstddef>

namespace zeropp {

/// task(i) for i in [0, count), in any order; done when it returns. Each i writes its own outputs.
#ifdef ZEROPP_OPENMP_LOOPS
template <class Task>
void host_for(const char* /*label*/, std::size_t count, const Task& task) {
#pragma omp parallel for schedule(static) if (count > 1)
  for (std::size_t i = 0; i < count; ++i) task(i);
}
#else
template <class Task>
void host_for(const char* label, std::size_t count, const Task& task) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  if (count == 0) return;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t> >(Space(), 0, count), task);
  Space().fence();
}
#endif

/// body(begin, end) over ranges that cover [0, n), in any order; done when it returns. Threads get
/// blocks: the loop inside a block is plain, so that it vectorizes.
template <class Body>
void for_blocks(const char* label, std::size_t n, const Body& body) {
  constexpr std::size_t kBlock = 1024;
  host_for(label, (n + kBlock - 1) / kBlock, [=](std::size_t block) {
    const std::size_t begin = block * kBlock;
    body(begin, std::min(begin + kBlock, n));
  });
}

}  // namespace zeropp

// The parallel loops of the host kernels.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>

namespace zeropp {

/// task(i) for i in [0, count), in any order; done when it returns. Each i writes its own outputs.
template <class Task>
void host_for(const char* label, std::size_t count, const Task& task) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  if (count == 0) return;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>>(Space(), 0, count), task);
  Space().fence();
}

/// body(begin, end) over ranges that cover [0, n), in any order; done when it returns. Kokkos gets
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

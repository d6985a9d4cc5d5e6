// The parallel loop of the host kernels.
#pragma once

#include <Kokkos_Core.hpp>
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

}  // namespace zeropp

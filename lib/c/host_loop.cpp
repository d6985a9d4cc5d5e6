// Parallel loops by OpenMP, for what starts no runtime of its own.
#include <omp.h>

#include <algorithm>

#include "kernels/core/host_for.hpp"

namespace zeropp {

void host_loop(const char* /*label*/, std::size_t count, HostRange* range, const void* task) {
  const std::size_t ranges = std::min(count, static_cast<std::size_t>(omp_get_max_threads()));
#pragma omp parallel for schedule(static) if (ranges > 1)
  for (std::size_t r = 0; r < ranges; ++r) {
    range(task, count * r / ranges, count * (r + 1) / ranges);
  }
}

}  // namespace zeropp

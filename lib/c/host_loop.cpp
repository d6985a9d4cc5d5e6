// Parallel loops by OpenMP, for what starts no runtime of its own.
#include "kernels/core/host_for.hpp"

namespace zeropp {

void host_loop(const char* /*label*/, std::size_t count, HostRange* range, const void* task) {
#pragma omp parallel for schedule(static) if (count > 1)
  for (std::size_t i = 0; i < count; ++i) range(task, i, i + 1);
}

}  // namespace zeropp

#include "kernels/core/host_runtime.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>

#include "kernels/core/host_for.hpp"

namespace zeropp {

void host_loop(const char* label, std::size_t count, HostRange* range, const void* task) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  if (count == 0) return;
  // A range for each thread: as Kokkos deals indices out itself.
  const std::size_t ranges = std::min(count, HostRuntime::threads());
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>>(0, ranges),
      [=](std::size_t r) { range(task, count * r / ranges, count * (r + 1) / ranges); });
  Space().fence();
}

HostRuntime::HostRuntime() { Kokkos::initialize(); }
HostRuntime::~HostRuntime() { Kokkos::finalize(); }

std::size_t HostRuntime::threads() {
  return static_cast<std::size_t>(Kokkos::DefaultHostExecutionSpace::concurrency());
}

std::string HostRuntime::kokkos_version() {
  return std::to_string(KOKKOS_VERSION / 10000) + "." + std::to_string(KOKKOS_VERSION / 100 % 100) +
         "." + std::to_string(KOKKOS_VERSION % 100);
}

}  // namespace zeropp

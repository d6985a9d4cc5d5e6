#include "kernels/core/host_runtime.hpp"

#include <Kokkos_Core.hpp>

namespace zeropp {

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

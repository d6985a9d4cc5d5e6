// Starts Kokkos for the host back end and ends it: one object, first thing in main, outliving all
// kernels. Threads: OMP_NUM_THREADS or KOKKOS_NUM_THREADS as Kokkos reads them.
#pragma once

#include <cstddef>
#include <string>

namespace zeropp {

class HostRuntime {
 public:
  HostRuntime();
  ~HostRuntime();
  HostRuntime(const HostRuntime&) = delete;
  HostRuntime& operator=(const HostRuntime&) = delete;

  /// Number of threads of the host kernels' parallel loops, after construction.
  static std::size_t threads();
  /// "3.4.1"
  static std::string kokkos_version();
};

}  // namespace zeropp

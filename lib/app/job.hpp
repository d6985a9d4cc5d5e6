// MPI and the host runtime, which a process has once, whatever runs in it. run() (lib/app/app.hpp)
// makes a Job for its program where the process has none; a process that makes one before may run
// programs one after the other.
#pragma once

#include <memory>
#include <optional>

#include "kernels/core/host_runtime.hpp"
#include "lib/comm/world.hpp"

namespace zeropp::app {

class Job {
 public:
  /// One at a time. Throws as comm::World does.
  Job(int& argc, char**& argv);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The one that there is, or null.
  static Job* of_process();

  [[nodiscard]] comm::World& world() { return world_; }
  /// Starts the host runtime, the first time; Kokkos cannot be started again.
  void start_host_runtime();

 private:
  comm::World world_;
  std::optional<HostRuntime> runtime_;
};

}  // namespace zeropp::app

#include "lib/comm/native_checks.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp::comm {

void require_equal_parts(std::size_t whole, std::size_t part, int ranks) {
  if (whole == part * static_cast<std::size_t>(ranks)) return;
  throw Error(ExitCode::environment,
              fmt::format("a collective over {} ranks was given {} elements for parts of {}", ranks,
                          whole, part));
}

int mpi_count(std::size_t part_elements, std::size_t total_elements) {
  if (std::in_range<int>(total_elements)) return static_cast<int>(part_elements);
  throw Error(ExitCode::environment,
              fmt::format("{} elements are too many for MPI's own collective (at most {}): choose "
                          "an algorithm other than native, or smaller buckets",
                          total_elements, std::numeric_limits<int>::max()));
}

void require_device_memory(const ConstView& view, const char* communicator) {
  if (view.kind == MemoryKind::device) return;
  throw Error(ExitCode::environment,
              fmt::format("the {} communicator was given host memory: use device memory, or groups "
                          "made for the host",
                          communicator));
}

void require_host_memory(const ConstView& view, const char* communicator) {
  if (view.kind != MemoryKind::device) return;
  throw Error(ExitCode::environment,
              fmt::format("the {} communicator was given device memory: use host memory, or groups "
                          "made for the device",
                          communicator));
}

}  // namespace zeropp::comm

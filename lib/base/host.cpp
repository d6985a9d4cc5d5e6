#include "lib/base/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <memory>

namespace zeropp {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

namespace {

struct FreeMask {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};

}  // namespace

std::vector<int> allowed_cpus() {
  // The kernel refuses a mask that is shorter than its own, and does not say how long that is.
  constexpr std::size_t kMost = std::size_t{1} << 20U;
  for (std::size_t count = CPU_SETSIZE; count <= kMost; count *= 2) {
    const std::unique_ptr<cpu_set_t, FreeMask> mask(CPU_ALLOC(count));
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    if (mask == nullptr) return {};
    if (sched_getaffinity(0, bytes, mask.get()) == 0) {
      std::vector<int> cpus;
      for (std::size_t cpu = 0; cpu < count; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, mask.get())) cpus.push_back(static_cast<int>(cpu));
      }
      return cpus;
    }
    if (errno != EINVAL) return {};
  }
  return {};
}

double seconds_without_processor() {
  double running = 0;  // both in ns: Documentation/scheduler/sched-stats.rst
  double waiting = 0;
  std::ifstream("/proc/thread-self/schedstat") >> running >> waiting;
  return waiting * 1e-9;
}

}  // namespace zeropp

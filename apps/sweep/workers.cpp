#include "apps/sweep/workers.hpp"

#include <sched.h>

#include "kernels/core/host_runtime.hpp"

namespace zeropp::sweep {

Workers Workers::on_this_host(int host_ranks) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  const int processors = known ? CPU_COUNT(&allowed) : 1;
  if (HostRuntime::threads() > 1) return Workers(1);
  return Workers(static_cast<std::size_t>(processors / std::max(1, host_ranks)));
}

}  // namespace zeropp::sweep

#include "apps/sweep/workers.hpp"

#include <sched.h>
#include <unistd.h>

#include "kernels/core/host_runtime.hpp"

namespace zeropp::sweep {

Workers Workers::on_this_host(int host_ranks) {
  if (HostRuntime::threads() > 1) return Workers(1);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  // A rank that is bound to processors has them for itself; one that is not takes its share.
  const long share = sysconf(_SC_NPROCESSORS_ONLN) / std::max(1, host_ranks);
  return Workers(static_cast<std::size_t>(std::min<long>(known ? CPU_COUNT(&allowed) : 1, share)));
}

}  // namespace zeropp::sweep

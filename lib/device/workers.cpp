#include "lib/device/workers.hpp"

#include <unistd.h>

#include "kernels/core/host_runtime.hpp"
#include "lib/base/host.hpp"

namespace zeropp {

Workers Workers::on_this_host(int host_ranks) {
  if (HostRuntime::threads() > 1) return Workers(1);
  // A rank that is bound to processors has them for itself; one that is not takes its share.
  const long share = sysconf(_SC_NPROCESSORS_ONLN) / std::max(1, host_ranks);
  return Workers(std::min(allowed_cpus().size(), static_cast<std::size_t>(share)));
}

}  // namespace zeropp

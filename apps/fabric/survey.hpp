// The measurement of every pair of ranks and every rail, and the placement of ranks, GPUs and
// network interfaces. A link that is slower than its equals is measured again before it is named.
#pragma once

#include "apps/fabric/options.hpp"
#include "lib/bench/run.hpp"
#include "lib/comm/groups.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::fabric {

/// Prints, and writes the trace and the JSON file. check_failed where a rank, a link or a rail is
/// slow or damages data, undecided where there was no time for all pairs, or other work had the
/// processors of ranks that look slow. `groups` with levels.
/// Collective over the world.
ExitCode survey(const Options& options, bench::Run& run, const comm::Groups& groups,
                const Stream& stream);

}  // namespace zeropp::fabric

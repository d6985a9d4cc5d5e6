// Orderly end of a communicator of the vendor: it is finalised and destroyed; where that fails or
// hangs, it ends by force; where force hangs too, with the process. Knows no NCCL, so that the
// rules are tested without a GPU.
#pragma once

#include <functional>
#include <vector>

#include "lib/base/poll.hpp"

namespace zeropp::comm {

/// End by force of one or several communicators. All but `give_up` run on threads that may outlive
/// what they were called from, and own all that they use.
struct ForcedEnd {
  /// Each frees one communicator at once. Runs beside the others, since the work of one
  /// communicator may wait for that of another until both are aborted; may never return.
  std::vector<std::function<void()>> aborts;
  std::function<void()> give_up;  ///< ends the process
};

/// Runs `finish`, which every rank of the group calls and which returns whether it succeeded, on a
/// thread of its own; ends by force where it fails or does not return within `deadline`.
void end_orderly(const std::function<bool()>& finish, Seconds deadline, const ForcedEnd& forced,
                 Seconds abort_deadline);
/// Gives up when the aborts do not all return within `deadline`.
void end_by_force(const ForcedEnd& forced, Seconds deadline);

}  // namespace zeropp::comm

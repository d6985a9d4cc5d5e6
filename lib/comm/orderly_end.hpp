// Orderly end of a communicator of the vendor: it is finalised and destroyed; where that fails or
// hangs, it ends by force; where force hangs too, with the process. Knows no NCCL, so that the
// rules are tested without a GPU.
#pragma once

#include <functional>

#include "lib/base/poll.hpp"

namespace zeropp::comm {

struct EndCalls {
  std::function<bool()> finish;   ///< every rank of the group calls it; false: it failed
  std::function<void()> abort;    ///< frees everything at once; may never return
  std::function<void()> give_up;  ///< ends the process
};

/// Finishes on a thread of its own; by force where that fails or does not return within `deadline`.
void end_orderly(const EndCalls& calls, Seconds deadline, Seconds abort_deadline);
/// Aborts on a thread of its own; gives up when that does not return within `deadline`.
void end_by_force(const EndCalls& calls, Seconds deadline);

}  // namespace zeropp::comm

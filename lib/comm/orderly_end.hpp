// How a communicator of the vendor ends: finalised and destroyed; where that fails or hangs, by
// force; where force hangs too, with the process. Knows no NCCL, so that the rules are tested
// without a GPU.
#pragma once

#include <functional>

#include "lib/base/poll.hpp"

namespace zeropp::comm {

struct EndCalls {
  std::function<Progress()> finalize;  ///< begins; every rank of the group calls it
  std::function<Progress()> state;     ///< asked until it is no longer pending
  std::function<Progress()> destroy;   ///< frees what is left, after finalising
  std::function<void()> abort;         ///< frees everything at once; may never return
  std::function<void()> give_up;       ///< ends the process
};

/// Finalises within `deadline` and destroys; where that fails or comes too late, by force.
void end_orderly(const EndCalls& calls, Seconds deadline, Seconds abort_deadline);
/// Aborts on a thread of its own; gives up when that does not return within `deadline`.
void end_by_force(const EndCalls& calls, Seconds deadline);

}  // namespace zeropp::comm

#include "lib/comm/orderly_end.hpp"

#include "lib/comm/within.hpp"

namespace zeropp::comm {

void end_orderly(const EndCalls& calls, Seconds deadline, Seconds abort_deadline) {
  if (!within(deadline, calls.finish).value_or(false)) end_by_force(calls, abort_deadline);
}

void end_by_force(const EndCalls& calls, Seconds deadline) {
  const auto abort = [abort = calls.abort] {
    abort();
    return true;
  };
  if (!within(deadline, abort)) calls.give_up();
}

}  // namespace zeropp::comm

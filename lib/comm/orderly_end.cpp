#include "lib/comm/orderly_end.hpp"

#include <future>

#include "lib/base/poll.hpp"

namespace zeropp::comm {

void end_orderly(const std::function<bool()>& finish, Seconds deadline, const ForcedEnd& forced,
                 Seconds abort_deadline) {
  if (!within(deadline, finish).value_or(false)) end_by_force(forced, abort_deadline);
}

void end_by_force(const ForcedEnd& forced, Seconds deadline) {
  const auto abort_all = [aborts = forced.aborts] {
    // Where no thread can be had, std::async runs the abort at the wait for it.
    std::vector<std::future<void>> running;
    for (const auto& abort : aborts) running.push_back(std::async(abort));
    for (const auto& one : running) one.wait();
    return true;
  };
  if (!within(deadline, abort_all)) forced.give_up();
}

}  // namespace zeropp::comm

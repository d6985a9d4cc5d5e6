// A call with a deadline, for what may never return: the end of a vendor's communicator, a write to
// a file system that hangs.
#pragma once

#include <functional>
#include <optional>

#include "lib/base/poll.hpp"

namespace zeropp::comm {

/// Result of `call`, or nothing where it does not return within `deadline`: it runs on a thread
/// that may outlive this function, and owns all that it uses. Where no thread can be had, it runs
/// without a deadline.
std::optional<bool> within(Seconds deadline, const std::function<bool()>& call);

}  // namespace zeropp::comm

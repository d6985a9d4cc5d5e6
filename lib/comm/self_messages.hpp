// Messages to the own rank: every communicator copies them itself.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "lib/comm/communicator.hpp"

namespace zeropp::comm {

/// The messages to `self` that have bytes, with their receives: they match in order, as they do in
/// MPI. Throws Error(environment) where sizes differ or a receive is missing.
std::vector<std::pair<Send, Receive>> self_messages(std::span<const Send> sends,
                                                    std::span<const Receive> receives, int self);

}  // namespace zeropp::comm

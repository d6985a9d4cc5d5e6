// SIGINT and SIGTERM: the handler sets a flag, and the work stops where all ranks can agree to
// stop. The second signal of a kind ends the process as if there were no handler.
#pragma once

#include "lib/comm/world.hpp"

namespace zeropp::app {

/// Call after MPI has started, once.
void install_interrupt_handlers();

/// The signal that this process got, or 0.
int interrupted();

/// At a boundary that every rank reaches: when any rank got a signal, all throw
/// AgreedError(interrupted). `where` completes the message: "step 12 of 200".
void stop_if_interrupted(comm::Control& control, const std::string& where);

}  // namespace zeropp::app

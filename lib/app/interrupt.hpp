// SIGINT, SIGTERM and SIGUSR1: the handler sets a flag, and the work stops where all ranks can
// agree to stop. SIGINT asks to give up; SIGTERM and SIGUSR1, which batch systems send, ask to end
// in order and to be started again. The second signal of a kind ends the process as if there were
// no handler.
#pragma once

#include "lib/comm/control.hpp"

namespace zeropp::app {

/// Call once, first of all: a batch system may warn a job that is still starting.
void install_interrupt_handlers();

/// The signal that counts more, each of `a` and `b` being a handled signal or 0: SIGINT counts
/// most, then SIGTERM, then SIGUSR1, whatever order they came in.
int more_pressing(int a, int b);

/// The signal that this process got, or 0; of several the one that counts most.
int interrupted();

/// The signal that any rank got, the same one on all; 0 when none did. Where ranks got different
/// signals, the most pressing one is returned. Collective: called at a boundary that every rank
/// reaches.
int agreed_interrupt(comm::Control& control);

/// Name of the signal: "SIGTERM".
const char* name_of_interrupt(int signal);

/// Error that all ranks throw when `signal` ends work of which nothing is kept: code interrupted
/// after SIGINT, else requeue. `where` completes the message: "step 12 of 200".
comm::AgreedError nothing_kept(int signal, const std::string& where);

}  // namespace zeropp::app

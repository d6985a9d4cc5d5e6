// Functions of lib/comm/watchdog.cpp for the library of the C interface: who ends a job that hangs
// is the caller's business there, and so is whom its ranks hear of.
#include "lib/comm/watchdog.hpp"

namespace zeropp::comm {

Seconds Watchdog::deadline() { return Seconds{0}; }
void Watchdog::wait_for_verdict() {}

}  // namespace zeropp::comm

// The machine that this process runs on: its name, the processors that the process may use, and how
// long they were taken.
#pragma once

#include <string>
#include <vector>

namespace zeropp {

/// Name of the machine; "unknown host" where the system does not say.
std::string host_name();

/// Numbers, in order, of the processors in the calling thread's mask; empty where the kernel does
/// not tell.
std::vector<int> allowed_cpus();

/// Seconds, so far, that the calling thread was ready to run and other threads had its processors;
/// 0 where the kernel does not tell.
double seconds_without_processor();

}  // namespace zeropp

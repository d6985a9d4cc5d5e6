// The machine that this process runs on: its name, and the processors that the process may use.
#pragma once

#include <string>
#include <vector>

namespace zeropp {

/// Name of the machine; "unknown host" where the system does not say.
std::string host_name();

/// Numbers, in order, of the processors in the calling thread's mask; empty where the kernel does
/// not tell.
std::vector<int> allowed_cpus();

}  // namespace zeropp

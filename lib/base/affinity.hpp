// The processors that this process may run on.
#pragma once

#include <vector>

namespace zeropp {

/// Numbers, in order, of the processors in the calling thread's mask; empty where the kernel does
/// not tell.
std::vector<int> allowed_cpus();

}  // namespace zeropp

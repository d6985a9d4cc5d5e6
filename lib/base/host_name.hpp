// The name of the machine that this process runs on: for messages and traces.
#pragma once

#include <string>

namespace zeropp {

/// "unknown host" where the system does not say.
std::string host_name();

}  // namespace zeropp

// Agreement of all ranks before data is sent: that they run the same program with the same
// configuration.
#pragma once

#include <string>
#include <vector>

#include "lib/comm/control.hpp"

namespace zeropp::app {

/// Compares `own` ({"program": ..., "configuration": {...}} as JSON text) over all ranks. Where
/// ranks differ, all throw AgreedError(usage) that names the ranks and the keys.
void agree_on_configuration(comm::Control& control, const std::string& own);

/// The message for `all`, every rank's text in rank order; empty when all are equal.
std::string describe_differences(const std::vector<std::string>& all);

}  // namespace zeropp::app

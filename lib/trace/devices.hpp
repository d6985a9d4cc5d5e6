// Devices that a measurement ran on, for the JSON of the programs that measure links and
// collectives.
#pragma once

#include <nlohmann/json.hpp>

#include "lib/trace/trace_data.hpp"

namespace zeropp::trace {

/// The ranks and what they ran on, under nccl-tests' names.
nlohmann::json devices(const TraceData& run);

}  // namespace zeropp::trace

// An estimate as text for a terminal and as the groups of a trace.
#pragma once

#include <string>

#include "lib/plan/estimate.hpp"
#include "lib/trace/document.hpp"

namespace zeropp::plan_app {

/// Tables of bytes, collectives and memory.
std::string to_text(const plan::PlannedRun& run, const plan::Estimate& estimate);

/// Trace of an estimate. `head` is describe_run()'s, of the process that planned.
trace::Document to_document(const plan::PlannedRun& run, const plan::Estimate& estimate,
                            const trace::TraceData& head);

}  // namespace zeropp::plan_app

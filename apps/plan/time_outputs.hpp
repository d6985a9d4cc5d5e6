// The time of a step as text for a terminal and as the groups of a trace.
#pragma once

#include <string>

#include "lib/plan/planned_run.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/trace/document.hpp"

namespace zeropp::plan {

std::string to_text(const PlannedRun& run, const Cluster& cluster, const StepTime& time);

/// Trace of a step's time. `head` is describe_run()'s, of the process that planned.
trace::Document to_document(const PlannedRun& run, const Cluster& cluster, const StepTime& time,
                            const trace::TraceData& head);

}  // namespace zeropp::plan

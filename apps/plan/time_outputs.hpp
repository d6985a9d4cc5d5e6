// The time of a step as text for a terminal and as the groups of a trace.
#pragma once

#include <string>

#include "lib/plan/planned_run.hpp"
#include "lib/plan/step_time.hpp"
#include "lib/trace/document.hpp"

namespace zeropp::plan_app {

std::string to_text(const plan::PlannedRun& run, const plan::Cluster& cluster,
                    const plan::StepTime& time);

/// Trace of a step's time. `head` is describe_run()'s, of the process that planned.
trace::Document to_document(const plan::PlannedRun& run, const plan::Cluster& cluster,
                            const plan::StepTime& time, const trace::TraceData& head);

}  // namespace zeropp::plan_app

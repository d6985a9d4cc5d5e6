// A sweep's results for programs: a JSON object with nccl-tests' key names, and a trace.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/sweep/outcome.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::sweep {

/// JSON of a sweep; docs/operators/sweep.md has the keys. `run`: the trace's head; `end_time`: ISO
/// 8601, UTC.
nlohmann::json to_json(const Outcome& outcome, const trace::TraceData& run,
                       const std::string& end_time);

/// The head of every trace, /results (two rows for each row of the sweep) and /samples (every time
/// of every rank).
trace::Document to_document(const Outcome& outcome, const trace::TraceData& run);

}  // namespace zeropp::sweep

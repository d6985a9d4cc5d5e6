// The results for programs: a JSON object, and a trace.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/kernels/results.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::kernels {

/// JSON of a run, of schema "zeropp-kernels": `rows` with the samples of each, `ceilings`, `units`,
/// where it comes from. `run`: the trace's head; `end_time`: ISO 8601, UTC. zpp-validate compare
/// reads two.
nlohmann::json to_json(const Outcome& outcome, const trace::TraceData& run,
                       const std::string& end_time);

/// The head of every trace, /ceilings, /results and /samples (lib/trace/README.md).
trace::Document to_document(const Outcome& outcome, const trace::TraceData& run);

}  // namespace zeropp::kernels

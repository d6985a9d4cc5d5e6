// A sweep for people and nccl-tests' tools: its 13 columns in its places, comments, and its footer,
// own columns after the 13; for programs: a JSON object with nccl-tests' key names, and a trace.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/sweep/options.hpp"
#include "apps/sweep/outcome.hpp"
#include "lib/comm/topology.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::sweep {

/// "# ..." lines about the run and its devices.
std::string preamble(const Options& options, const Settings& settings,
                     const comm::Topology& topology, const std::vector<trace::RankRow>& ranks);

/// The three lines above the rows. `per_iteration`: with p99, as in line_of().
std::string column_names(bool per_iteration);

/// Line of one row. `flags_noise`: whether scattered samples are worth a note (ranks of one
/// machine).
std::string line_of(const Row& row, bool flags_noise, bool per_iteration);

/// nccl-tests' last lines, and the verdict.
std::string footer(const Outcome& outcome);

/// JSON of a sweep; docs/operators/sweep.md has the keys. `run`: the trace's head.
nlohmann::json to_json(const Outcome& outcome, const trace::TraceData& run);

/// The head of every trace, /results (two rows for each row of the sweep) and /samples (every time
/// of every rank).
trace::Document to_document(const Outcome& outcome, const trace::TraceData& run);

}  // namespace zeropp::sweep

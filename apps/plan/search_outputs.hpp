// Results of a search, as text for a terminal and as the groups of a trace.
#pragma once

#include <string>
#include <vector>

#include "lib/plan/search.hpp"
#include "lib/trace/document.hpp"

namespace zeropp::plan_app {

/// Results of one cluster size. `result.best` is in the order of the goal.
struct Found {
  comm::Topology topology;
  plan::SearchResult result;
};

/// The candidates of which no other takes less time (without a cluster: sends less across nodes)
/// and memory, and no fewer bits; in their order. Indices.
std::vector<std::size_t> trade_offs(const std::vector<plan::Candidate>& candidates);

/// Text of the results; `rows` is the number of rows of each table, which have every column where
/// they are `wide`, and else fit into 120; `given` is what the user decided.
std::string to_text(const std::vector<Found>& found, std::size_t rows, bool wide,
                    const std::vector<config::Option>& given);

/// Trace of the results. `head` is describe_run()'s, of the process that searched.
trace::Document to_document(const std::vector<Found>& found, const trace::TraceData& head);

}  // namespace zeropp::plan_app

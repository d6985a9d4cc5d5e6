// Results of a matrix, on rank 0: what goes into converge.h5, and whether it is valid.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/converge/checks.hpp"
#include "apps/converge/plan.hpp"
#include "apps/converge/run_record.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::converge {

struct Study {
  const Plan& plan;
  const std::vector<RunRecord>& runs;  ///< of each of plan.runs
  std::vector<CheckRow> checks;
  std::map<std::string, trace::DataInfo> data;  ///< by level
};

/// "VALID", or "INVALID: reason": bytes that were not predicted, a bound that was left or that says
/// nothing, a check that failed. A run that diverged is a result: it does not make a study invalid.
std::string verdict_of(const Study& study);

/// The groups of converge.h5 beside those of every program (lib/trace/README.md).
std::vector<trace::Group> groups_of(const Study& study);

}  // namespace zeropp::converge

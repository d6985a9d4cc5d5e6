// Contracts as checks between finished runs: what should have trained the same parameters, or the
// same losses but for rounding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/converge/plan.hpp"
#include "apps/converge/run_record.hpp"

namespace zeropp::converge {

/// A row of /checks.
struct CheckRow {
  std::string name;
  std::uint64_t first = 0;  ///< run
  std::uint64_t second = 0;
  /// 0: identical parameters; else |loss - loss of the first| / loss of the first, of final
  /// training losses, above 0.
  double difference = 0;
  double limit = 0;
  bool passed = false;
};

/// Every check, for each seed that both settings have. `runs[i]` is plan.runs[i]'s.
std::vector<CheckRow> check_runs(const Plan& plan, const std::vector<RunRecord>& runs);

}  // namespace zeropp::converge

#include "apps/converge/checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zeropp::converge {

namespace {

CheckRow compare(const Check& check, std::size_t first, std::size_t second,
                 const std::vector<RunRecord>& runs) {
  const RunRecord& a = runs[first];
  const RunRecord& b = runs[second];
  CheckRow row{check.name, first, second, 0.0, check.limit, true};
  if (a.diverged || b.diverged) {  // what was not trained is equal to what was not trained
    row.difference = std::numeric_limits<double>::infinity();
    row.passed = false;
    return row;
  }
  if (a.parameters_hash == b.parameters_hash) return row;
  const double apart =
      std::abs(a.final_train_loss - b.final_train_loss) / std::abs(a.final_train_loss);
  row.difference = std::max(apart, std::numeric_limits<double>::min());
  row.passed = check.limit > 0 && row.difference <= check.limit;
  return row;
}

}  // namespace

std::vector<CheckRow> check_runs(const Plan& plan, const std::vector<RunRecord>& runs) {
  std::vector<CheckRow> rows;
  const auto is = [&](std::size_t run, const std::string& setting) {
    return plan.settings[plan.runs[run].setting].name == setting;
  };
  for (const Check& check : plan.checks) {
    for (std::size_t first = 0; first < runs.size(); ++first) {
      for (std::size_t second = 0; second < runs.size(); ++second) {
        if (is(first, check.first) && is(second, check.second) &&
            plan.runs[first].seed == plan.runs[second].seed) {
          rows.push_back(compare(check, first, second, runs));
        }
      }
    }
  }
  return rows;
}

}  // namespace zeropp::converge

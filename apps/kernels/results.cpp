#include "apps/kernels/results.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zeropp::kernels {

std::string Outcome::verdict() const {
  const auto wrong = std::ranges::count_if(rows, [](const Row& row) { return !row.valid(); });
  if (wrong == 0) return "VALID";
  const Row& first = *std::ranges::find_if(rows, [](const Row& row) { return !row.valid(); });
  return fmt::format("INVALID: {} of {} rows, {}: {}", wrong, rows.size(), first.name,
                     first.verdict.substr(sizeof("INVALID:")));
}

Row to_row(const Case& of, const Problem& problem, const Measured& measured,
           const Ceilings& ceilings) {
  Row row;
  row.name = of.name();
  row.kernel = of.kernel;
  row.variant = of.variant;
  row.dtype = of.dtype;
  row.shape = of.shape;
  row.path = problem.path;
  row.work = problem.work;
  row.sets = measured.sets;
  const Limit limit = limit_of(problem.work, ceilings);
  row.limit = limit.name;
  if (!measured.wrong.empty()) {
    row.verdict = "INVALID: " + measured.wrong;
    return row;
  }
  row.samples = measured.samples;
  row.summary = summarize(measured.samples.slowest());
  row.of_limit = limit.seconds / row.summary.median;
  row.of_copy = row.bytes_per_second() / ceilings.reference;
  return row;
}

}  // namespace zeropp::kernels

// Results of a run, as every output writes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/kernels/ceilings.hpp"
#include "apps/kernels/kernel.hpp"
#include "lib/base/statistics.hpp"
#include "lib/trace/verdict.hpp"

namespace zeropp::kernels {

struct Row {
  std::string name;  ///< of the case: the parts below
  std::string kernel;
  std::string variant;
  std::string dtype;
  std::string shape;
  std::string path;
  Work work;
  std::size_t sets = 0;
  Samples samples;
  Summary summary;                ///< seconds of one run; zeros where nothing was timed
  std::string limit;              ///< the ceiling that binds
  double of_limit = 0;            ///< share of it that was reached
  double of_copy = 0;             ///< bytes moved a second over Ceilings::reference
  std::string verdict = "VALID";  ///< or "INVALID: reason"

  [[nodiscard]] bool valid() const { return trace::is_valid(verdict); }
  [[nodiscard]] double bytes_per_second() const { return rate(work.moved()); }
  [[nodiscard]] double operations_per_second() const { return rate(work.operations); }

 private:
  [[nodiscard]] double rate(double amount) const { return valid() ? amount / summary.median : 0; }
};

struct Outcome {
  std::size_t threads = 0;      ///< of the host's kernels
  std::size_t cache_bytes = 0;  ///< of the largest cache, as listed or given
  std::vector<Ceiling> ceilings;
  std::vector<Row> rows;

  /// "VALID", or "INVALID: 2 of 40 kernels, NAME: reason"
  [[nodiscard]] std::string verdict() const;
};

/// Row of a problem that was measured under these ceilings.
Row to_row(const Case& of, const Problem& problem, const Measured& measured,
           const Ceilings& ceilings);

}  // namespace zeropp::kernels

// Ceilings of the machine: what it can do at most, measured in the same run by the plainest means,
// passes over memory larger than the caches, and a large product of matrices.
#pragma once

#include <string>
#include <vector>

#include "apps/kernels/bench.hpp"

namespace zeropp::kernels {

/// One ceiling, as it was measured.
struct Ceiling {
  std::string name;  ///< "memcpy", "copy", "read", "write", "to host", "from host", "fp32", "bf16";
                     ///< "copy again" at the end
  std::string means;
  std::string unit;   ///< "B/s" or "op/s"
  double amount = 0;  ///< bytes or operations of a run
  Samples samples;
  [[nodiscard]] double rate() const;
};

/// `bf16`: some kernel multiplies bf16. Throws Error(check_failed) when the product is wrong.
std::vector<Ceiling> measure_ceilings(const Bench& bench, bool bf16, const Source& source);
/// The copy once more, to see how far the machine has drifted.
Ceiling measure_copy(const Bench& bench);

/// Rates that the machine reached, in bytes or operations a second; NaN: not measured.
struct Ceilings {
  /// Host: memcpy by one thread, its bytes counted once (a codec's are read + written). CUDA: the
  /// driver's copy, its bytes counted read + written.
  double reference = 0;
  double copy = 0;  ///< read + written, all threads
  double read = 0;
  double write = 0;
  double fp32 = 0;
  double bf16 = 0;
};

struct Limit {
  std::string_view name;  ///< the ceiling: "copy", "read", "write", "fp32", "bf16"
  double seconds = 0;     ///< the least that the work can take under it
};

/// The ceiling under which the work takes longest. Memory: `read` where less than an eighth of what
/// is read is written, `write` the other way round, else `copy`.
Limit limit_of(const Work& work, const Ceilings& ceilings);

/// Ceilings of `measured`, by name; on a GPU the copy is the reference.
Ceilings ceilings_of(const std::vector<Ceiling>& measured);

}  // namespace zeropp::kernels

// Work that one run of a kernel has to do, as the kernel declares it, and which of the machine's
// limits that work meets first. Limits are measured in the same run (ceilings.hpp).
#pragma once

#include <string_view>

namespace zeropp::kernels {

/// Units that do the operations: fp32 units, or the units for products of bf16 (tensor cores).
enum class Arithmetic { fp32, bf16 };

struct Work {
  double read = 0;        ///< bytes: every input once
  double written = 0;     ///< bytes: every output once
  double operations = 0;  ///< additions and multiplications; a fused one is two
  Arithmetic arithmetic = Arithmetic::fp32;

  [[nodiscard]] double moved() const { return read + written; }
};

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

}  // namespace zeropp::kernels

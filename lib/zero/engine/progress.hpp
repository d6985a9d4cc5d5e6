// Progress of training: the one state that a step changes and that all parts of an engine read.
// Plain values, the same on every rank; the engine owns them and its parts share them by reference.
#pragma once

#include <cstdint>

namespace zeropp::zero {

/// Counts of steps, which an engine keeps up and a checkpoint saves.
struct StepCounts {
  std::uint64_t taken = 0;  ///< the optimizer's t
  std::uint64_t begun = 0;  ///< with those that were skipped
};

struct Progress {
  StepCounts steps;
  std::uint64_t version = 1;  ///< of the weights: every step and load increments it
  /// Version that the copies of the weights hold: secondary shards or, with weight differences at
  /// stages 1 and 2, resident weights; 0: none.
  std::uint64_t secondary_version = 0;
  bool gathered_initial = false;  ///< resident weights are whole
};

}  // namespace zeropp::zero

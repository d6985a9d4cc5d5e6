// Progress of training: the one state that a step changes and that all parts of an engine read.
// Plain values, the same on every rank; the engine owns them and its parts share them by reference.
#pragma once

#include <cstdint>

namespace zeropp::zero {

/// Counts of steps, which an engine keeps up and a checkpoint saves.
struct StepCounts {
  std::uint64_t taken = 0;  ///< the optimizer's t
  std::uint64_t begun = 0;  ///< steps that were taken or skipped
};

struct Progress {
  StepCounts steps;
  /// Version of the weights, which every step that is taken increments; restoring a run sets it.
  std::uint64_t version = 1;
  /// Version of the weights that the secondary shards hold or, with weight differences at stages 1
  /// and 2, the resident weights; 0: they hold none.
  std::uint64_t secondary_version = 0;
  bool gathered_initial = false;  ///< resident weights are whole
};

}  // namespace zeropp::zero

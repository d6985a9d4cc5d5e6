// Mean of the fp32 master weights after several steps, in the host's memory: the average of the
// last iterates of a run, as in stochastic weight averaging (arXiv 1803.05407, section 3). Each
// rank keeps what its optimizer steps: 12 bytes for each of its master weights.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/zero/engine/engine.hpp"

namespace zeropp::train {

class AveragedWeights {
 public:
  /// Number of weights that were added.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Adds the engine's weights, as they are between two steps. Waits for the last update. Throws
  /// std::bad_alloc.
  void add(const zero::Engine& engine);
  /// Gives the engine the mean of what was added. Needs count() > 0. Collective.
  void use_mean(zero::Engine& engine) const;
  /// Gives the engine what was added last, in every bit. Needs count() > 0. Collective.
  void use_last(zero::Engine& engine) const;

 private:
  /// A part of a unit's master weights that this rank keeps.
  struct Part {
    checkpoint::Slice slice;
    std::vector<double> sum;
    std::vector<float> last;
  };
  /// The part that a slice of the master weights is.
  [[nodiscard]] const Part& part_of(const checkpoint::Slice& slice) const;

  std::vector<Part> parts_;
  std::size_t count_ = 0;
};

}  // namespace zeropp::train

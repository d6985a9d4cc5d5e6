// Table of the codecs that a unit's weights and gradients take in each step: the one answer that
// plans, memory, predicted bytes and trace all read. It is a function of the options, the unit and
// the step alone, so that all ranks agree without asking. A unit begins with weight_codec and
// gradient_codec_*; of the entries of zeropp.codec_schedule that hold for it, the last one that
// names a codec and whose step has come decides it. With adaptive bits the codecs of one kind of
// values are the integers of each width, of which AdaptiveBits chooses. Owns values only; made
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/codec/spec.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::zero {

/// Codecs of the hops of one reduction.
struct GradientCodecs {
  codec::CodecSpec intra;  ///< of the first hop, and the only one of algorithms with one
  codec::CodecSpec inter;
  bool operator==(const GradientCodecs&) const = default;
};

/// The codecs that are in force, by unit: indices into CodecTable::weights() and gradients().
struct CodecChoice {
  std::vector<std::size_t> weights;
  std::vector<std::size_t> gradients;
  /// With weight differences: the weights that the step sends go whole.
  bool whole_weights = true;
  bool operator==(const CodecChoice&) const = default;
};

class CodecTable {
 public:
  /// `options` are resolved. Throws Error(usage) for an entry that fits no unit.
  CodecTable(const Options& options, const std::vector<Unit>& units);

  /// All codecs that `unit` takes in some step, each once: `none` alone without qwZ or qgZ.
  [[nodiscard]] const std::vector<codec::CodecSpec>& weights(std::size_t unit) const {
    return units_[unit].weights;
  }
  [[nodiscard]] const std::vector<GradientCodecs>& gradients(std::size_t unit) const {
    return units_[unit].gradients;
  }
  /// Codecs in force in the step after `step` others, and in evaluations before it. Adaptive values
  /// have index 0.
  [[nodiscard]] CodecChoice at(std::uint64_t step) const;
  /// Whether the step after `step` others sends whole weights, with weight differences, whatever
  /// the copies hold. Weights after as many steps go the same way at every stage.
  [[nodiscard]] bool refreshes_at(std::uint64_t step) const {
    const std::uint64_t taken = step + steps_ahead_;  // of the weights that are sent
    return taken == 0 || (refresh_interval_ > 0 && taken % refresh_interval_ == 0);
  }
  /// Group of each unit: units of one group take the same gradient codecs in every step, and may
  /// share a bucket.
  [[nodiscard]] const std::vector<std::size_t>& gradient_groups() const { return groups_; }

 private:
  /// Codec that a unit's values take from a step on, until the next change.
  struct Change {
    std::uint64_t step;
    std::size_t index;  ///< in weights or gradients
  };
  struct UnitCodecs {
    std::vector<codec::CodecSpec> weights;
    std::vector<GradientCodecs> gradients;
    std::vector<Change> weight_changes;    ///< by step, the first at 0
    std::vector<Change> gradient_changes;  ///< by step, the first at 0
  };
  static std::size_t index_at(const std::vector<Change>& changes, std::uint64_t step);

  std::size_t refresh_interval_;
  /// Stage 3 sends weights in the step that uses them, stages 1 and 2 at the end of the one before.
  std::uint64_t steps_ahead_;
  std::vector<UnitCodecs> units_;
  std::vector<std::size_t> groups_;
};

/// Whether codecs depend on the step or the unit: then the trace has the group /codecs.
bool codecs_vary(const Options& options);

/// The widths to choose from, narrowest first: "int2:128", ...
std::vector<codec::CodecSpec> adaptive_codecs(const AdaptiveBitsOptions& options);

/// The largest block of the gradient codecs of all units and steps, at least 1: buckets are cut at
/// multiples of it. Entries count where they stand, whether or not their step comes.
std::size_t gradient_block(const Options& options);

}  // namespace zeropp::zero

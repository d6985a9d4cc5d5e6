// The all-gathers of weights, planned once per unit, codec and phase: global (qwZ's codecs or
// none), inside the hpZ group (never quantized), and of updated weights at stages 1 and 2. Owns
// plans only; the engine lends memory, enough for any of a unit's codecs.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/collective_plans.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class WeightGather {
 public:
  /// `options` are resolved (no "auto"); `groups` and `recorder` outlive this.
  WeightGather(const Options& options, const CodecTable& codecs,
               const std::vector<UnitPartition>& units, comm::Groups& groups,
               trace::Recorder& recorder, const Device& device);

  /// Chooses the codec of unit u from the next gather on: codecs.weights(u)[choice[u]]. The index
  /// is 0 before.
  void use(const std::vector<std::size_t>& choice) { choice_ = choice; }

  /// All-gather of the shards (compute dtype) of every rank into the padded unit (compute dtype).
  [[nodiscard]] collective::AllGather& global(std::size_t unit, Phase phase) const {
    return global(unit, phase, choice_[unit]);
  }
  /// The one that takes codecs.weights(unit)[codec].
  [[nodiscard]] collective::AllGather& global(std::size_t unit, Phase phase,
                                              std::size_t codec) const {
    return *global_[unit][codec].at(index_of(phase));
  }
  /// All-gathers of the secondary shards of every rank of the group into the padded unit: gather k
  /// is of piece k, into part k of as many of the unit.
  [[nodiscard]] const std::vector<std::unique_ptr<collective::AllGather>>& secondary(
      std::size_t unit, Phase phase) const;

 private:
  /// Plans of one unit differ in their label only; null where there is none.
  using ByPhase = std::array<std::unique_ptr<collective::AllGather>, kPhases>;

  std::vector<std::vector<ByPhase>> global_;  ///< by unit and codec
  /// By unit and phase.
  std::vector<std::array<std::vector<std::unique_ptr<collective::AllGather>>, kPhases>> secondary_;
  std::vector<std::size_t> choice_;  ///< by unit
};

}  // namespace zeropp::zero

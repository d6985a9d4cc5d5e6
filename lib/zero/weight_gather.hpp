// The all-gathers of weights, planned once per unit and phase: global (qwZ's codec or none), inside
// the hpZ group (never quantized), and of updated weights at stages 1 and 2. Owns plans only; the
// engine lends memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "lib/collective/collective.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/options.hpp"
#include "lib/zero/partition.hpp"
#include "lib/zero/volume.hpp"

namespace zeropp::zero {

/// What a gather is for: its phase in the trace.
enum class Phase : std::uint8_t { forward, backward, evaluation, update, initial };

class WeightGather {
 public:
  /// `options` are resolved (no "auto"); `groups` and `recorder` outlive this.
  WeightGather(const Options& options, const std::vector<UnitPartition>& units,
               comm::Groups& groups, trace::Recorder& recorder, const Device& device);

  /// Shard (compute dtype) of every rank -> the padded unit (compute dtype).
  [[nodiscard]] collective::AllGather& global(std::size_t unit, Phase phase) const;
  /// Secondary shard of every rank of the group -> the padded unit.
  [[nodiscard]] collective::AllGather& secondary(std::size_t unit, Phase phase) const;

  void add_volumes(Volumes& volumes) const;
  void add_memory(std::vector<UnitMemory>& memory) const;

 private:
  using ByPhase = std::array<std::unique_ptr<collective::AllGather>, 5>;
  /// Plans of one unit differ in their label only; null where there is none.
  static const collective::AllGather* any_of(const ByPhase& plans);

  std::vector<ByPhase> global_;
  std::vector<ByPhase> secondary_;
};

}  // namespace zeropp::zero

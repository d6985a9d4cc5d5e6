// Adaptive bits: every so many steps each unit gets a width of the integer codecs, by what each
// width would lose of its gradients or weights now (width_errors.hpp), so that all units together
// lose little (bit_allocation.hpp) and a step sends no more bytes than the budget. Errors and bytes
// are summed over ranks in rank order, so that every rank makes the same choice. The first choice
// is the widest width that all units can have. The choice is its whole state. Collective where
// said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/comm/control.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/quantization/width_errors.hpp"

namespace zeropp::zero {

/// Bytes that this rank sends of the values in a step that gathers or reduces all of them.
struct WidthCosts {
  std::vector<std::vector<std::uint64_t>> bytes;  ///< by unit and width
  std::uint64_t of_budget_codec = 0;              ///< of all units
};

class AdaptiveBits {
 public:
  /// References outlive this. Does not communicate.
  AdaptiveBits(const Options& options, const std::vector<UnitPartition>& units, WidthCosts costs,
               comm::Control& control, const Device& device, trace::Recorder& recorder);

  /// Makes the first choice: sums costs over ranks. Collective; called once, before the first step.
  /// All ranks throw AgreedError(usage) where the budget is less than what the smallest width
  /// sends.
  void agree();
  [[nodiscard]] bool of_weights() const { return options_.values == AdaptedValues::weights; }
  /// Whether widths are chosen after the step with `step` others before it, if it is not skipped.
  [[nodiscard]] bool due(std::uint64_t step) const { return step % options_.interval == 0; }
  /// Errors that the choice is to be made by; filled for a due step.
  [[nodiscard]] WidthErrors& errors() { return errors_; }
  /// Collective, after a due step: by what errors() kept, a choice for what comes after. Leaves
  /// rows in the recorder's `widths`, the same on every rank. Waits for the stream.
  void choose(std::uint64_t step, const Stream& stream);
  /// Replaces the index 0, which a table's choice has for these values, by this choice.
  void overlay(CodecChoice& choice) const;

  /// Bits by unit: what a checkpoint keeps.
  [[nodiscard]] std::vector<std::uint64_t> bits() const;
  /// Continues with the bits() of another run, after agree(). False, and nothing is done, where
  /// they are not of these units and widths, or more than the budget.
  bool restore(std::span<const std::uint64_t> bits);

  [[nodiscard]] MemoryReport memory() const { return errors_.memory(); }

 private:
  /// Throws Error(usage) where the smallest width everywhere sends `bytes`, more than the budget.
  void require_budget(std::uint64_t bytes) const;

  AdaptiveBitsOptions options_;
  WidthCosts costs_;  ///< of all ranks, after agree()
  std::uint64_t budget_ = 0;
  comm::Control& control_;
  trace::Recorder& recorder_;
  WidthErrors errors_;
  std::vector<std::size_t> choice_;  ///< by unit: index of its width
};

}  // namespace zeropp::zero

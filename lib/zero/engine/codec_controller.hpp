// Controls the codecs of an engine: which ones the next step takes (those of the table, and of
// adaptive bits), and what they lose (error meter, adaptive bits), which it observes beside the
// step. Owns the choice in force, the meter and the adaptive bits with their memory; shards and
// gradients are others'. Puts codecs into force in the plan and in the collectives that are made of
// it, and forgets hpZ's secondary shards where the codec of weights changed. Collective: every rank
// calls every function, in one order.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/quantization/adaptive_bits.hpp"
#include "lib/zero/quantization/error_meter.hpp"

namespace zeropp::zero {

class CodecController {
 public:
  /// References outlive this. Does not communicate. Throws Error(environment) when there is no
  /// memory.
  CodecController(const EngineContext& context, const RankMemory& memory,
                  const RankOptimizer& optimizer);

  /// Agrees on the first widths. Called once, before the first step. All ranks throw
  /// AgreedError(usage) where adaptive bits cannot keep their budget.
  void agree();
  /// Puts the codecs of the coming step into force. Leaves rows in the recorder's `codecs`.
  void apply();

  /// A step begins. Called before it is counted as begun.
  void begin_step();
  /// Keeps a bucket's gradients for what is measured. Called before the bucket is reduced, on the
  /// reduction's stream.
  void before_reduction(const Op& op);
  /// Measures what a step computed with, where it is one that is measured: its weights and, where
  /// `finite`, the sums of its gradients. Called before the updates, when compute has joined the
  /// other streams. Waits for compute.
  void measure(bool finite);
  /// Chooses the widths of the steps to come. Called after a step that was taken. Waits for
  /// compute.
  void choose_widths();

  /// Adaptive bits; null where bits are not adaptive.
  [[nodiscard]] AdaptiveBits* adaptive() { return adaptive_ ? &*adaptive_ : nullptr; }
  [[nodiscard]] std::vector<MemoryReport> memory() const;

 private:
  void record(const CodecChoice& before);
  [[nodiscard]] WidthCosts width_costs() const;
  void measure_weights();
  void measure_gradients();
  [[nodiscard]] std::vector<ConstView> weight_shards() const;
  /// The own shard of a unit's weights in what this rank keeps of all of them; empty where it keeps
  /// nothing.
  [[nodiscard]] ConstView kept_shard(std::size_t unit) const;

  const EngineContext& context_;
  const RankMemory& memory_;
  const RankOptimizer& optimizer_;
  CodecChoice choice_;  ///< in force; empty before the first step
  std::optional<ErrorMeter> errors_;
  std::optional<AdaptiveBits> adaptive_;
  bool measured_ = false;  ///< the running step is
};

}  // namespace zeropp::zero

// Guard against silent data corruption: wrong bytes that a link, a memory, a kernel or a library
// produces without an error. In a step that is verified it digests what several ranks hold alike
// and what lies still from one place of the step to another, samples a reduction and an update to
// compute them a second time, and has all ranks compare in one exchange of the control plane, after
// the step's own wait for the loss. A step is verified where its number is a multiple of
// Options::verify_interval, and the first one of a run. The table in
// lib/zero/plan/guard_findings.hpp says which digests are compared. The step calls it at four
// places (training_step.cpp); it wraps operations and takes nothing from the arena. Digests run on
// the streams that own the data, and 8 bytes of each come to the host. Collective: every rank calls
// every function, in one order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/device/buffer.hpp"
#include "lib/zero/communication/reduction_sample.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/engine/step_operations.hpp"
#include "lib/zero/optimizer/update_sample.hpp"
#include "lib/zero/plan/guard_findings.hpp"

namespace zeropp::zero {

class StepGuard {
 public:
  /// References outlive this. Throws Error(environment) when there is no memory.
  StepGuard(const EngineContext& context, const RankMemory& memory, const RankOptimizer& optimizer);

  /// Master weights and moments were set: they are not what a step has left.
  void forget_left() { left_steps_ = {}; }
  /// A step begins, and was counted as begun. Before its first operation.
  void begin_step();
  /// Runs an operation of a step by `operations`, and looks at what it reads and makes where the
  /// step is verified.
  Finish run(const Op& op, const StepRun& with, StepOperations& operations);
  /// Enqueues, on compute, what there is to see of a step after its gradients: compute has joined
  /// the other streams. Before the step's wait for the loss.
  void observe();
  /// Damage that was found, in one line with the remedy, once compute has come past observe();
  /// empty where there is none, and of a step that is not verified. All ranks find the same; rank 0
  /// names hosts.
  std::string judge();

  [[nodiscard]] MemoryReport memory() const;

 private:
  [[nodiscard]] bool is_verified(std::uint64_t step) const {
    return step % context_.options.verify_interval == 0;
  }
  void before(const Op& op, const StepRun& with);
  void after(const Op& op, StreamHandle on);
  void gathered(const Op& op, StreamHandle on);
  /// Adds the digest of `values`, whose first byte is byte `offset` of what is digested.
  void add(Seen what, std::size_t unit, ConstView values, std::size_t offset, StreamHandle on);
  /// Adds the digest of a unit's master weights and moments, where they lie in memory.
  void add_optimizer(Seen what, std::size_t unit, StreamHandle on);
  [[nodiscard]] std::size_t slot(Seen what, std::size_t unit) const {
    return static_cast<std::size_t>(what) * context_.units().size() + unit;
  }
  /// The digest of the optimizer's arrays that an update of this step's parity left.
  [[nodiscard]] static Seen left(std::uint64_t step) {
    return step % 2 == 0 ? Seen::left_even : Seen::left_odd;
  }
  void clear(Seen first, Seen last);
  /// Whether the update sample is of this update: where units are updated during backward, of the
  /// verified step, else of the step before, since its values have to arrive with the wait.
  [[nodiscard]] bool samples_update(const Op& op) const;
  /// This rank's words of the exchange: GuardHeader, the digests, the sampled reduction.
  [[nodiscard]] std::vector<std::uint64_t> message();
  /// Differences in the words of all ranks, `stride` words apart.
  [[nodiscard]] std::vector<Finding> compare(std::span<const std::uint64_t> words,
                                             std::size_t stride) const;

  const EngineContext& context_;
  const RankMemory& memory_;
  const RankOptimizer& optimizer_;
  ReductionSample reduction_;
  UpdateSample update_;
  Buffer digests_;                        ///< by slot, in the device's memory
  Buffer fetched_;                        ///< the same on the host
  std::vector<std::uint64_t> host_sums_;  ///< by slot: of memory that the device does not address
  bool first_ = true;                     ///< no step has begun
  bool verifies_ = false;                 ///< the running step is verified
  bool leaves_ = false;                   ///< the next one will be
  std::vector<bool> cut_;                 ///< by unit: hpZ's shard was cut in this step
  /// By parity: the last step whose updates were digested.
  std::array<std::uint64_t, 2> left_steps_{};
};

}  // namespace zeropp::zero

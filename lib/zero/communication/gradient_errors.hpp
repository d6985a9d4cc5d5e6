// The state of error feedback over all buckets of gradients: what becomes of it between steps. A
// reduction chains errors from micro-step to micro-step; at the end of a step they are kept, or,
// when the step was skipped, those from before it: a skipped step leaves no trace. Every
// `reset_period` steps that were taken they are forgotten, in all buckets at once. Owned by
// GradientReduce; work on device memory is enqueued on the given stream, after which the caller
// starts reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/collective/error_feedback.hpp"
#include "lib/comm/shape.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"
#include "lib/zero/plan/state_memory.hpp"

namespace zeropp::zero {

/// Bytes of state in the device's memory, as they lie, with a name that is unique in the engine.
struct NamedState {
  std::string name;  ///< "error_feedback.intra.3", "error_feedback.across.reduce.3": of bucket 3
  std::size_t elements = 0;  ///< values that the bytes hold
  std::span<std::byte> bytes;
};

class GradientErrors {
 public:
  /// `job` is the job that the gradients are reduced in.
  GradientErrors(const Options& options, const std::vector<Bucket>& buckets,
                 const comm::JobShape& job, const Device& device);

  /// Errors for the collectives of this bucket that do `transfer`; null where nothing is fed back.
  [[nodiscard]] collective::ErrorFeedback* of(Transfer transfer, std::size_t bucket) const {
    const ByBucket& errors = transfer == Transfer::replica_reduce   ? replica_reduce_
                             : transfer == Transfer::replica_gather ? replica_gather_
                                                                    : feedback_;
    return errors.empty() ? nullptr : errors[bucket].get();
  }

  /// Keeps the errors of a step that was taken, the `steps`-th.
  void commit(std::uint64_t steps, StreamHandle stream);
  /// Goes back to the errors from before a step that was skipped.
  void discard();
  /// Forgets all errors, as before the first step.
  void forget(StreamHandle stream) const;
  /// Scales the kept errors by `factor`, for gradients that come scaled by `factor` more than in
  /// the steps before (loss scaling).
  void rescale(float factor, StreamHandle stream) const;

  /// The kept errors, for checkpoints; valid until the next commit.
  [[nodiscard]] std::vector<NamedState> state() const;
  /// Memory of both copies of the errors, by hop: predicted from the buckets alone, and held. Hops
  /// without errors are left out.
  [[nodiscard]] std::vector<MemoryReport> memory() const;

 private:
  using ByBucket = std::vector<std::unique_ptr<collective::ErrorFeedback>>;
  /// Calls body(what, bucket, errors) for every hop of every bucket that has errors; `what`: index
  /// of its name.
  template <class Body>
  void for_each(const Body& body) const;

  std::size_t reset_period_;
  ByBucket feedback_;  ///< of reductions among the ranks that share a copy; empty: none
  ByBucket replica_reduce_;
  ByBucket replica_gather_;
  std::vector<MemoryPart> predicted_;
};

}  // namespace zeropp::zero

// The gradients of a schedule: their memory, the reductions of buckets, which run beside the
// backward of other layers, and the updates during backward that wait for them. schedule.cpp calls
// this when it adds a layer's backward.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "lib/zero/plan/arena_planner.hpp"
#include "lib/zero/plan/reuse.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

/// A schedule that is being made.
struct OpList {
  std::vector<Op> ops;
  ArenaPlanner arena;

  /// Returns the index of the operation.
  std::size_t emit(Op op) {
    ops.push_back(std::move(op));
    return ops.size() - 1;
  }
};

class ReductionSchedule {
 public:
  /// References outlive this.
  ReductionSchedule(const ScheduleInput& input, OpList& out);

  /// Begins the gradients that a layer's backward writes first: adds to `waits` what it waits for.
  void begin(const Use& use, std::vector<std::size_t>& waits);
  /// Reduces, where gradients are sharded, the buckets whose last unit a layer's backward,
  /// operation `done`, completes. The first layer's ends the micro-step.
  void reduce_finished(const Use& use, std::size_t done);
  /// Reduces the local sums of all micro-steps, at stages 0 and 1, after the last operation.
  void reduce_all();

 private:
  /// `after`: the operation that completes the bucket's gradients.
  void reduce(std::size_t bucket, std::size_t micro_step, std::size_t after);
  /// The units that had these slabs before are updated.
  void wait_for_slabs(const Bucket& bucket, std::vector<std::size_t>& waits) const;
  /// The unit's gradients are complete.
  void update_in_backward(std::size_t unit, std::size_t micro_step);
  /// Gradients of other micro-steps are not there yet: nothing is to be added to.
  [[nodiscard]] bool is_first_sum(std::size_t micro_step) const;
  /// A first sum that is one piece of one gradient shard needs no memory of its own.
  [[nodiscard]] bool reduces_into_shard(std::size_t bucket, std::size_t micro_step) const;
  void retire_all();
  /// Frees the memory of the oldest reduction in flight for the next one, and emits the operations
  /// that consume its sum. They wait for the reduction itself, not for the operation that ends it,
  /// which comes on its stream after the end of the next reduction.
  void retire_oldest();
  /// The sums over micro-steps are complete: over the shard groups, beside the backward of other
  /// layers.
  void sum_over_replicas(const Op& reduce, std::size_t reduced);
  std::size_t gather_sum(const Op& reduce, std::size_t reduced);

  const ScheduleInput& in_;
  OpList& out_;
  std::vector<std::size_t> first_layers_;
  std::vector<std::vector<std::size_t>> buckets_ending_with_;  ///< by unit
  /// By unit: arena offset of its gradients (kNoMemory at stages 0 and 1); empty: not begun.
  std::vector<std::optional<std::size_t>> gradients_;
  std::vector<std::vector<std::size_t>> unit_reductions_;        ///< by unit, in order
  std::vector<std::optional<std::size_t>> updated_in_backward_;  ///< by unit: its update
  std::vector<std::size_t> reductions_;                          ///< of the step, in order
  std::size_t retired_ = 0;  ///< how many of them were retired; the others are in flight
};

}  // namespace zeropp::zero

#include "lib/zero/plan/schedule.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/zero/plan/arena_planner.hpp"
#include "lib/zero/plan/reuse.hpp"

namespace zeropp::zero {

namespace {

/// Always prefetch the weights of this many uses, whatever their size, so that a layer that
/// computes for less time than the next gather takes does not make compute wait.
constexpr std::size_t kUsesPrefetched = 2;

class Builder {
 public:
  /// `forward`: the phase of what is no part of backward.
  Builder(const ScheduleInput& input, bool secondary_valid, Phase forward)
      : in_(input),
        forward_(forward),
        weights_(input.units.size()),
        gradients_(input.units.size()),
        secondary_op_(input.units.size()),
        secondary_valid_(input.units.size(), secondary_valid),
        first_layers_(first_layers(input.layers, input.units.size())),
        buckets_ending_with_(input.units.size()),
        unit_reductions_(input.units.size()),
        updated_in_backward_(input.units.size()) {
    for (std::size_t b = 0; b < input.buckets.size(); ++b) {
      buckets_ending_with_[input.buckets[b].segments.back().unit].push_back(b);
    }
  }

  void run(const std::vector<Use>& uses) {
    reuse_ = plan_reuse(in_, uses);
    std::size_t gathered = 0;  // uses whose gathers are issued
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (in_.preset.shard_parameters) {
        if (gathered == i) {
          gather_for(uses, gathered++);
        } else {
          prefetched_elements_ -= to_gather(uses, i);
        }
        if (in_.overlap) prefetch(uses, i, gathered);
      }
      compute(uses[i], reuse_[i]);
    }
  }

  /// Reduces the local sums of all micro-steps, at stages 0 and 1.
  void reduce_all() {
    const std::size_t last_backward = ops_.size() - 1;
    for (std::size_t b = 0; b < in_.buckets.size(); ++b) {
      reduce(b, in_.micro_steps - 1, last_backward);
    }
    retire_all();
  }

  Schedule take() { return {std::move(ops_), arena_.peak()}; }

 private:
  /// A gathered unit: its memory, and the operation that makes it.
  struct Live {
    std::size_t op;
    std::size_t offset;
    std::optional<std::size_t> workspace;  ///< until its first use
    std::vector<std::size_t> readers{};    ///< of the weights
  };

  [[nodiscard]] Phase phase_of(const Use& use) const {
    return use.backward ? Phase::backward : forward_;
  }

  std::size_t emit(Op op) {
    ops_.push_back(std::move(op));
    return ops_.size() - 1;
  }

  /// Brings the secondary shards that a use gathers up to date.
  void exchange_for(const Use& use) {
    if (!in_.exchanges) return;
    for (const std::size_t unit : in_.layers[use.layer].units) {
      if (in_.units[unit].persistent || secondary_valid_[unit]) continue;
      Op op{OpKind::exchange, unit};
      op.micro_step = use.micro_step;
      op.stream = StreamId::secondary;
      op.phase = forward_;
      op.bytes = in_.unit_memory[unit].exchange_workspace;
      op.workspace = arena_.allocate(op.bytes, op.waits_on);
      const std::size_t workspace = op.workspace;
      secondary_op_[unit] = emit(std::move(op));
      arena_.release(workspace, {*secondary_op_[unit]});
      secondary_valid_[unit] = true;
    }
  }

  void gather_for(const std::vector<Use>& uses, std::size_t index) {
    const Use& use = uses[index];
    exchange_for(use);
    // While what this use needs travels inside the node, that of the next crosses nodes.
    if (in_.overlap && index + 1 < uses.size()) exchange_for(uses[index + 1]);
    const auto& units = in_.layers[use.layer].units;
    for (std::size_t at = 0; at < units.size(); ++at) {
      const std::size_t unit = units[at];
      if (in_.units[unit].persistent || reuse_[index][at].is_there) continue;
      const UnitMemory& memory = in_.unit_memory[unit];
      const bool inside = in_.hpz && secondary_valid_[unit];
      const std::size_t workspace = inside ? memory.secondary_workspace : memory.gather_workspace;
      Op op{inside ? OpKind::gather_secondary : OpKind::gather, unit};
      op.micro_step = use.micro_step;
      op.stream = StreamId::gather;
      op.phase = phase_of(use);
      op.bytes = memory.weights + workspace;
      op.result = arena_.allocate(memory.weights, op.waits_on);
      op.workspace = arena_.allocate(workspace, op.waits_on);
      if (inside && secondary_op_[unit]) op.waits_on.push_back(*secondary_op_[unit]);
      Live live{ops_.size(), op.result, op.workspace};
      emit(std::move(op));
      weights_[unit] = std::move(live);
      live_elements_ += in_.units[unit].padded;
      secondary_valid_[unit] = true;  // from the next gather on
    }
  }

  /// Gathers for later uses: kUsesPrefetched of them, and more within the limit. A unit that is
  /// live is not gathered again before it is released, which also keeps one run of a unit's
  /// collective in flight.
  void prefetch(const std::vector<Use>& uses, std::size_t current, std::size_t& gathered) {
    while (gathered < uses.size()) {
      if (is_still_in_use(uses, gathered)) break;
      const std::size_t more = to_gather(uses, gathered);
      const std::size_t prefetched = prefetched_elements_ + more;
      if (live_elements_ + more > in_.max_live_elements) break;
      const bool always = gathered <= current + kUsesPrefetched && in_.prefetch_elements > 0;
      if (prefetched > in_.prefetch_elements && !always) break;
      prefetched_elements_ = prefetched;
      gather_for(uses, gathered++);
    }
  }

  /// Elements that a use gathers.
  [[nodiscard]] std::size_t to_gather(const std::vector<Use>& uses, std::size_t index) const {
    const auto& units = in_.layers[uses[index].layer].units;
    std::size_t total = 0;
    for (std::size_t at = 0; at < units.size(); ++at) {
      const UnitPartition& unit = in_.units[units[at]];
      if (!unit.persistent && !reuse_[index][at].is_there) total += unit.padded;
    }
    return total;
  }

  /// Whether something that a use gathers is live for a use before it.
  [[nodiscard]] bool is_still_in_use(const std::vector<Use>& uses, std::size_t index) const {
    const auto& units = in_.layers[uses[index].layer].units;
    for (std::size_t at = 0; at < units.size(); ++at) {
      if (weights_[units[at]] && !reuse_[index][at].is_there) return true;
    }
    return false;
  }

  void compute(const Use& use, const std::vector<Reuse>& reuse) {
    const auto& units = in_.layers[use.layer].units;
    std::vector<std::size_t> waits;
    for (std::size_t at = 0; at < units.size(); ++at) {
      const std::size_t unit = units[at];
      if (!weights_[unit]) continue;
      waits.push_back(weights_[unit]->op);
      if (in_.hpz && !reuse[at].is_there && ops_[weights_[unit]->op].kind == OpKind::gather) {
        // The copy runs on a stream of its own: neither this use nor prefetches wait for it.
        Op keep{OpKind::keep_secondary, unit};
        keep.micro_step = use.micro_step;
        keep.phase = phase_of(use);
        keep.stream = StreamId::secondary;
        keep.result = weights_[unit]->offset;
        keep.waits_on = {weights_[unit]->op};
        secondary_op_[unit] = emit(std::move(keep));
        weights_[unit]->readers.push_back(*secondary_op_[unit]);
      }
    }
    if (use.backward) prepare_gradients(use, waits);
    Op op{use.backward ? OpKind::backward : OpKind::forward, use.layer};
    op.micro_step = use.micro_step;
    op.phase = phase_of(use);
    op.waits_on = std::move(waits);
    const std::size_t done = emit(std::move(op));
    for (std::size_t at = 0; at < units.size(); ++at) {
      std::optional<Live>& live = weights_[units[at]];
      if (!live) continue;
      live->readers.push_back(done);
      if (live->workspace) arena_.release(*std::exchange(live->workspace, {}), live->readers);
      if (reuse[at].stays) continue;
      arena_.release(live->offset, live->readers);
      live.reset();
      live_elements_ -= in_.units[units[at]].padded;
    }
    if (use.backward && in_.preset.shard_gradients) reduce_finished(use, done);
    if (use.backward && use.layer == 0)
      retire_all();  // the next micro-step begins with no gradients
  }

  /// Stages 0 and 1 keep whole gradients outside the arena, begun once a step.
  void prepare_gradients(const Use& use, std::vector<std::size_t>& waits) {
    for (const std::size_t unit : in_.layers[use.layer].units) {
      if (gradients_[unit]) continue;
      Op clear{OpKind::clear_gradients, unit};
      clear.micro_step = use.micro_step;
      clear.phase = Phase::backward;
      if (in_.preset.shard_gradients) {
        clear.bytes = in_.unit_memory[unit].gradients;
        clear.result = arena_.allocate(clear.bytes, clear.waits_on);
      }
      const std::size_t offset = clear.result;
      waits.push_back(emit(std::move(clear)));
      gradients_[unit] = offset;
    }
  }

  /// Reduces the buckets whose last unit finished with this layer's backward.
  void reduce_finished(const Use& use, std::size_t done) {
    for (const std::size_t unit : in_.layers[use.layer].units) {
      if (first_layers_[unit] != use.layer) continue;
      for (const std::size_t bucket : buckets_ending_with_[unit]) {
        reduce(bucket, use.micro_step, done);
      }
    }
  }

  /// `after`: the operation that completes the bucket's gradients.
  void reduce(std::size_t bucket, std::size_t micro_step, std::size_t after) {
    const BucketMemory& memory = in_.bucket_memory[bucket];
    Op op{OpKind::reduce, bucket};
    if (reductions_.size() - retired_ == kReductionsInFlight) retire_oldest();
    if (reductions_.size() >= kReductionsInFlight) {
      op.waits_on.push_back(reductions_[reductions_.size() - kReductionsInFlight]);
    }
    op.micro_step = micro_step;
    op.stream = StreamId::reduce;
    op.phase = Phase::backward;
    op.first_sum = is_first_sum(micro_step);
    op.bytes = memory.workspace;
    if (!reduces_into_shard(bucket, micro_step)) {
      op.bytes += memory.sum;
      op.result = arena_.allocate(memory.sum, op.waits_on);
    }
    op.workspace = arena_.allocate(memory.workspace, op.waits_on);
    op.waits_on.push_back(after);
    wait_for_slabs(in_.buckets[bucket], op.waits_on);
    reductions_.push_back(emit(std::move(op)));
    for (const Segment& segment : in_.buckets[bucket].segments)
      unit_reductions_[segment.unit].push_back(reductions_.back());
    if (!in_.overlap) retire_all();
  }

  /// The units that had these slabs before are updated.
  void wait_for_slabs(const Bucket& bucket, std::vector<std::size_t>& waits) const {
    if (!in_.slabs.enabled()) return;
    for (const Segment& segment : bucket.segments) {
      const std::size_t turn = in_.slabs.places[segment.unit].turn;
      for (std::size_t unit = 0; turn >= kGradientSlabs && unit < in_.units.size(); ++unit) {
        if (in_.slabs.places[unit].turn + kGradientSlabs != turn) continue;
        waits.push_back(updated_in_backward_[unit].value());
      }
    }
  }

  /// The unit's gradients are complete.
  void update_in_backward(std::size_t unit, std::size_t micro_step) {
    Op op{OpKind::update, unit};
    op.micro_step = micro_step;
    op.stream = StreamId::update;
    op.phase = Phase::backward;
    op.waits_on = unit_reductions_[unit];
    updated_in_backward_[unit] = emit(std::move(op));
  }

  /// Gradients of other micro-steps are not there yet: nothing is to be added to.
  [[nodiscard]] bool is_first_sum(std::size_t micro_step) const {
    return micro_step == 0 || !in_.preset.shard_gradients;
  }

  /// A first sum that is one piece of one gradient shard needs no memory of its own.
  [[nodiscard]] bool reduces_into_shard(std::size_t bucket, std::size_t micro_step) const {
    return in_.preset.shard_optimizer && is_first_sum(micro_step) &&
           in_.buckets[bucket].segments.size() == 1;
  }

  void retire_all() {
    while (retired_ < reductions_.size()) retire_oldest();
  }

  /// Frees the memory of the oldest reduction in flight for the next one, and emits the operations
  /// that consume its sum. They wait for the reduction itself, not for the operation that ends it,
  /// which lies on its stream behind the end of the next reduction.
  void retire_oldest() {
    const std::size_t reduced = reductions_[retired_++];
    const Op reduce = ops_[reduced];
    Op end{OpKind::end_reduce, reduce.index};
    end.micro_step = reduce.micro_step;
    end.stream = StreamId::reduce_end;
    end.phase = Phase::backward;
    end.waits_on = {reduced};
    emit(std::move(end));
    arena_.release(reduce.workspace, {reduced});
    const std::size_t last = in_.preset.shard_optimizer ? reduced : gather_sum(reduce, reduced);
    if (reduce.result != kNoMemory) arena_.release(reduce.result, {last});
    if (in_.over_replicas && reduce.micro_step + 1 == in_.micro_steps)
      sum_over_replicas(reduce, reduced);
    if (!in_.preset.shard_gradients) return;
    for (const Segment& segment : in_.buckets[reduce.index].segments) {
      if (!ends_shard(segment, in_.units[segment.unit])) continue;
      arena_.release(*gradients_[segment.unit], {reduced});
      gradients_[segment.unit].reset();
      if (in_.slabs.enabled()) update_in_backward(segment.unit, reduce.micro_step);
    }
  }

  /// The sums over micro-steps are complete: over the shard groups, beside the backward of other
  /// layers.
  void sum_over_replicas(const Op& reduce, std::size_t reduced) {
    const BucketMemory& memory = in_.bucket_memory[reduce.index];
    Op sum{OpKind::reduce_over_replicas, reduce.index};
    sum.micro_step = reduce.micro_step;
    sum.stream = StreamId::reduce_end;
    sum.phase = Phase::backward;
    sum.bytes = memory.replica_image + memory.replica_reduce_workspace;
    sum.waits_on = {reduced};
    sum.result = arena_.allocate(memory.replica_image, sum.waits_on);
    sum.workspace = arena_.allocate(memory.replica_reduce_workspace, sum.waits_on);
    Op gather = sum;
    const std::size_t workspace = sum.workspace;
    const std::size_t summed = emit(std::move(sum));
    arena_.release(workspace, {summed});
    gather.kind = OpKind::gather_over_replicas;
    gather.bytes = memory.replica_gather_workspace;
    gather.waits_on = {summed};
    gather.workspace = arena_.allocate(gather.bytes, gather.waits_on);
    const std::size_t last_workspace = gather.workspace;
    const std::size_t image = gather.result;
    const std::size_t gathered = emit(std::move(gather));
    arena_.release(last_workspace, {gathered});
    arena_.release(image, {gathered});
  }

  std::size_t gather_sum(const Op& reduce, std::size_t reduced) {
    Op op{OpKind::gather_sum, reduce.index};
    op.micro_step = reduce.micro_step;
    op.stream = StreamId::reduce_end;
    op.phase = Phase::backward;
    op.bytes = in_.bucket_memory[reduce.index].gather_sum_workspace;
    op.result = reduce.result;
    op.waits_on = {reduced};
    op.workspace = arena_.allocate(op.bytes, op.waits_on);
    const std::size_t workspace = op.workspace;
    const std::size_t emitted = emit(std::move(op));
    arena_.release(workspace, {emitted});
    return emitted;
  }

  const ScheduleInput& in_;
  Phase forward_;
  std::vector<Op> ops_;
  ArenaPlanner arena_;
  std::vector<std::vector<Reuse>> reuse_;  ///< by use and place in its layer
  std::vector<std::optional<Live>> weights_;
  std::size_t live_elements_ = 0;        ///< of weights_
  std::size_t prefetched_elements_ = 0;  ///< that were gathered for uses after the current one
  std::vector<std::optional<std::size_t>>
      gradients_;  ///< arena offset (kNoMemory at stages 0 and 1)
  std::vector<std::optional<std::size_t>>
      secondary_op_;  ///< operation that last wrote the secondary shard
  std::vector<bool> secondary_valid_;
  std::vector<std::size_t> first_layers_;
  std::vector<std::vector<std::size_t>> buckets_ending_with_;    ///< by unit
  std::vector<std::vector<std::size_t>> unit_reductions_;        ///< by unit, in order
  std::vector<std::optional<std::size_t>> updated_in_backward_;  ///< by unit: its update
  std::vector<std::size_t> reductions_;                          ///< of the step, in order
  std::size_t retired_ = 0;  ///< how many of them were retired; the others are in flight
};

}  // namespace

Schedule make_step_schedule(const ScheduleInput& input, bool secondary_valid) {
  Builder builder(input, secondary_valid, Phase::forward);
  builder.run(uses_of_step(input.layers.size(), input.micro_steps));
  if (!input.preset.shard_gradients) builder.reduce_all();
  return builder.take();
}

Schedule make_evaluation_schedule(const ScheduleInput& input, bool secondary_valid) {
  Builder builder(input, secondary_valid, Phase::evaluation);
  std::vector<Use> uses;
  for (std::size_t layer = 0; layer < input.layers.size(); ++layer)
    uses.push_back({layer, 0, false});
  builder.run(uses);
  return builder.take();
}

}  // namespace zeropp::zero

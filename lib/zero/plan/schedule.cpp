#include "lib/zero/plan/schedule.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/checked.hpp"
#include "lib/zero/plan/reduction_schedule.hpp"
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
        reductions_(input, out_),
        weights_(input.units.size()),
        secondary_op_(input.units.size()),
        secondary_valid_(input.units.size(), secondary_valid) {}

  void run(const std::vector<Use>& uses) {
    reuse_ = plan_reuse(in_, uses);
    agree();
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
  void reduce_all() { reductions_.reduce_all(); }

  Schedule take() { return {std::move(out_.ops), out_.arena.peak()}; }

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

  /// Agrees on the sizes of all exchanges at once: the host waits for it.
  void agree() {
    const bool stale = !secondary_valid_.empty() && !secondary_valid_.front();
    if (!in_.agrees || !in_.exchanges || !stale) return;
    Op op = agreement(in_, forward_);
    op.workspace = out_.arena.allocate(op.bytes, op.waits_on);
    const std::size_t workspace = op.workspace;
    const std::size_t done = out_.emit(std::move(op));
    out_.arena.release(workspace, {done});
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
      op.workspace = out_.arena.allocate(op.bytes, op.waits_on);
      const std::size_t workspace = op.workspace;
      secondary_op_[unit] = out_.emit(std::move(op));
      out_.arena.release(workspace, {*secondary_op_[unit]});
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
      op.result = out_.arena.allocate(memory.weights, op.waits_on);
      op.workspace = out_.arena.allocate(workspace, op.waits_on);
      if (inside && secondary_op_[unit]) op.waits_on.push_back(*secondary_op_[unit]);
      Live live{out_.ops.size(), op.result, op.workspace};
      out_.emit(std::move(op));
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
      if (in_.hpz && !reuse[at].is_there && out_.ops[weights_[unit]->op].kind == OpKind::gather) {
        // The copy runs on a stream of its own: neither this use nor prefetches wait for it.
        Op keep{OpKind::keep_secondary, unit};
        keep.micro_step = use.micro_step;
        keep.phase = phase_of(use);
        keep.stream = StreamId::secondary;
        keep.result = weights_[unit]->offset;
        keep.waits_on = {weights_[unit]->op};
        secondary_op_[unit] = out_.emit(std::move(keep));
        weights_[unit]->readers.push_back(*secondary_op_[unit]);
      }
    }
    if (use.backward) reductions_.begin(use, waits);
    Op op{use.backward ? OpKind::backward : OpKind::forward, use.layer};
    op.micro_step = use.micro_step;
    op.phase = phase_of(use);
    op.waits_on = std::move(waits);
    const std::size_t done = out_.emit(std::move(op));
    for (std::size_t at = 0; at < units.size(); ++at) {
      std::optional<Live>& live = weights_[units[at]];
      if (!live) continue;
      live->readers.push_back(done);
      if (live->workspace) out_.arena.release(*std::exchange(live->workspace, {}), live->readers);
      if (reuse[at].stays) continue;
      out_.arena.release(live->offset, live->readers);
      live.reset();
      live_elements_ -= in_.units[units[at]].padded;
    }
    if (use.backward) reductions_.reduce_finished(use, done);
  }

  const ScheduleInput& in_;
  Phase forward_;
  OpList out_;
  ReductionSchedule reductions_;
  std::vector<std::vector<Reuse>> reuse_;  ///< by use and place in its layer
  std::vector<std::optional<Live>> weights_;
  std::size_t live_elements_ = 0;        ///< of weights_
  std::size_t prefetched_elements_ = 0;  ///< that were gathered for uses after the current one
  std::vector<std::optional<std::size_t>>
      secondary_op_;  ///< operation that last wrote the secondary shard
  std::vector<bool> secondary_valid_;
};

}  // namespace

Op agreement(const ScheduleInput& input, Phase phase) {
  Op op{OpKind::agree, 0};
  op.stream = input.exchanges ? StreamId::secondary : StreamId::gather;
  op.phase = phase;
  for (const UnitMemory& memory : input.unit_memory) {
    op.bytes = std::max(op.bytes, 2 * round_up(memory.count_workspace, ArenaPlanner::kGranule));
  }
  op.bytes += input.units.size() * sizeof(codec::Escapes);
  return op;
}

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

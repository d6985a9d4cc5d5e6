#include "lib/zero/plan/reduction_schedule.hpp"

namespace zeropp::zero {

ReductionSchedule::ReductionSchedule(const ScheduleInput& input, OpList& out)
    : in_(input),
      out_(out),
      first_layers_(first_layers(input.layers, input.units.size())),
      buckets_ending_with_(input.units.size()),
      gradients_(input.units.size()),
      unit_reductions_(input.units.size()),
      updated_in_backward_(input.units.size()) {
  for (std::size_t b = 0; b < input.buckets.size(); ++b) {
    buckets_ending_with_[input.buckets[b].segments.back().unit].push_back(b);
  }
}

void ReductionSchedule::reduce_all() {
  const std::size_t last_backward = out_.ops.size() - 1;
  for (std::size_t b = 0; b < in_.buckets.size(); ++b) {
    reduce(b, in_.micro_steps - 1, last_backward);
  }
  retire_all();
}

void ReductionSchedule::begin(const Use& use, std::vector<std::size_t>& waits) {
  for (const std::size_t unit : in_.layers[use.layer].units) {
    if (gradients_[unit]) continue;
    Op clear{OpKind::clear_gradients, unit};
    clear.micro_step = use.micro_step;
    clear.phase = Phase::backward;
    if (in_.preset.shard_gradients) {
      clear.bytes = in_.unit_memory[unit].gradients;
      clear.result = out_.arena.allocate(clear.bytes, clear.waits_on);
    }
    const std::size_t offset = clear.result;
    waits.push_back(out_.emit(std::move(clear)));
    gradients_[unit] = offset;
  }
}

void ReductionSchedule::reduce_finished(const Use& use, std::size_t done) {
  for (const std::size_t unit : in_.layers[use.layer].units) {
    if (!in_.preset.shard_gradients || first_layers_[unit] != use.layer) continue;
    for (const std::size_t bucket : buckets_ending_with_[unit]) {
      reduce(bucket, use.micro_step, done);
    }
  }
  if (use.layer == 0) retire_all();  // the next micro-step begins with no gradients
}

void ReductionSchedule::reduce(std::size_t bucket, std::size_t micro_step, std::size_t after) {
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
    op.result = out_.arena.allocate(memory.sum, op.waits_on);
  }
  op.workspace = out_.arena.allocate(memory.workspace, op.waits_on);
  op.waits_on.push_back(after);
  wait_for_slabs(in_.buckets[bucket], op.waits_on);
  reductions_.push_back(out_.emit(std::move(op)));
  for (const Segment& segment : in_.buckets[bucket].segments)
    unit_reductions_[segment.unit].push_back(reductions_.back());
  if (!in_.overlap) retire_all();
}

void ReductionSchedule::wait_for_slabs(const Bucket& bucket,
                                       std::vector<std::size_t>& waits) const {
  if (!in_.slabs.enabled()) return;
  for (const Segment& segment : bucket.segments) {
    const std::size_t turn = in_.slabs.places[segment.unit].turn;
    for (std::size_t unit = 0; turn >= kGradientSlabs && unit < in_.units.size(); ++unit) {
      if (in_.slabs.places[unit].turn + kGradientSlabs != turn) continue;
      waits.push_back(updated_in_backward_[unit].value());
    }
  }
}

void ReductionSchedule::update_in_backward(std::size_t unit, std::size_t micro_step) {
  Op op{OpKind::update, unit};
  op.micro_step = micro_step;
  op.stream = StreamId::update;
  op.phase = Phase::backward;
  op.waits_on = unit_reductions_[unit];
  updated_in_backward_[unit] = out_.emit(std::move(op));
}

bool ReductionSchedule::is_first_sum(std::size_t micro_step) const {
  return micro_step == 0 || !in_.preset.shard_gradients;
}

bool ReductionSchedule::reduces_into_shard(std::size_t bucket, std::size_t micro_step) const {
  return in_.preset.shard_optimizer && is_first_sum(micro_step) &&
         in_.buckets[bucket].segments.size() == 1;
}

void ReductionSchedule::retire_all() {
  while (retired_ < reductions_.size()) retire_oldest();
}

void ReductionSchedule::retire_oldest() {
  const std::size_t reduced = reductions_[retired_++];
  const Op reduce = out_.ops[reduced];
  Op end{OpKind::end_reduce, reduce.index};
  end.micro_step = reduce.micro_step;
  end.stream = StreamId::reduce_end;
  end.phase = Phase::backward;
  end.waits_on = {reduced};
  out_.emit(std::move(end));
  out_.arena.release(reduce.workspace, {reduced});
  const std::size_t last = in_.preset.shard_optimizer ? reduced : gather_sum(reduce, reduced);
  if (reduce.result != kNoMemory) out_.arena.release(reduce.result, {last});
  if (in_.over_replicas && reduce.micro_step + 1 == in_.micro_steps)
    sum_over_replicas(reduce, reduced);
  if (!in_.preset.shard_gradients) return;
  for (const Segment& segment : in_.buckets[reduce.index].segments) {
    if (!ends_shard(segment, in_.units[segment.unit])) continue;
    out_.arena.release(*gradients_[segment.unit], {reduced});
    gradients_[segment.unit].reset();
    if (in_.slabs.enabled()) update_in_backward(segment.unit, reduce.micro_step);
  }
}

void ReductionSchedule::sum_over_replicas(const Op& reduce, std::size_t reduced) {
  const BucketMemory& memory = in_.bucket_memory[reduce.index];
  Op sum{OpKind::reduce_over_replicas, reduce.index};
  sum.micro_step = reduce.micro_step;
  sum.stream = StreamId::reduce_end;
  sum.phase = Phase::backward;
  sum.bytes = memory.replica_image + memory.replica_reduce_workspace;
  sum.waits_on = {reduced};
  sum.result = out_.arena.allocate(memory.replica_image, sum.waits_on);
  sum.workspace = out_.arena.allocate(memory.replica_reduce_workspace, sum.waits_on);
  Op gather = sum;
  const std::size_t workspace = sum.workspace;
  const std::size_t summed = out_.emit(std::move(sum));
  out_.arena.release(workspace, {summed});
  gather.kind = OpKind::gather_over_replicas;
  gather.bytes = memory.replica_gather_workspace;
  gather.waits_on = {summed};
  gather.workspace = out_.arena.allocate(gather.bytes, gather.waits_on);
  const std::size_t last_workspace = gather.workspace;
  const std::size_t image = gather.result;
  const std::size_t gathered = out_.emit(std::move(gather));
  out_.arena.release(last_workspace, {gathered});
  out_.arena.release(image, {gathered});
}

std::size_t ReductionSchedule::gather_sum(const Op& reduce, std::size_t reduced) {
  Op op{OpKind::gather_sum, reduce.index};
  op.micro_step = reduce.micro_step;
  op.stream = StreamId::reduce_end;
  op.phase = Phase::backward;
  op.bytes = in_.bucket_memory[reduce.index].gather_sum_workspace;
  op.result = reduce.result;
  op.waits_on = {reduced};
  op.workspace = out_.arena.allocate(op.bytes, op.waits_on);
  const std::size_t workspace = op.workspace;
  const std::size_t emitted = out_.emit(std::move(op));
  out_.arena.release(workspace, {emitted});
  return emitted;
}

}  // namespace zeropp::zero

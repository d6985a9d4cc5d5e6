#include "lib/zero/communication/gradient_reduce.hpp"

#include <algorithm>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {

/// Codecs saturate, and a loss scale that is too large must not go unseen: what lies beyond fp16's
/// range becomes infinite before it is encoded. Where sums over ranks are encoded again, they stay
/// in the range when each term is in its share of it.
std::optional<float> largest_gradient(const Options& options, const comm::Topology& topology) {
  constexpr float kLargestFp16 = 65504.0F;
  if (options.compute != Dtype::fp16) return std::nullopt;
  const auto& algorithm = collective::find_reduce_scatter(options.reduce_scatter_algorithm);
  return kLargestFp16 / static_cast<float>(algorithm.ranks_in_sums(topology));
}

}  // namespace

std::size_t bucket_quantum(const Options& options) { return 8 * gradient_block(options); }

GradientReduce::GradientReduce(const Options& options, const CodecTable& codecs,
                               const std::vector<UnitPartition>& units, std::vector<Bucket> buckets,
                               comm::Groups& groups, trace::Recorder& recorder,
                               const Device& device)
    : units_(units),
      buckets_(std::move(buckets)),
      world_size_(static_cast<std::size_t>(groups.sharding().world->size())),
      largest_(largest_gradient(options, groups.sharding().topology)),
      device_(device),
      errors_(options, buckets_, groups.sharding().topology,
              groups.replicas ? static_cast<std::size_t>(groups.replicas->size()) : 1, device),
      choice_(buckets_.size(), 0) {
  comm::Groups& sharding = groups.sharding();
  const collective::Context context{sharding, *sharding.world, recorder, device};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::size_t count = buckets_[b].count();
    const std::size_t stride = packed(b) ? count : units_[buckets_[b].segments.front().unit].shard;
    collective::ReduceScatterPlan plan;
    plan.parts = {count, stride};
    plan.memory = dtype(b);
    plan.plain = options.compute;
    plan.depth = options.pipeline_depth;
    plan.label = {"gradients", "backward"};
    plan.feedback = errors_.of(b);
    reduce_.emplace_back();
    for (const GradientCodecs& hops : codecs.gradients(buckets_[b].segments.front().unit)) {
      plan.codec_first = hops.intra;
      plan.codec_second = hops.inter;
      reduce_.back().push_back(
          collective::plan_reduce_scatter(options.reduce_scatter_algorithm, context, plan));
    }
    if (!stage_preset(options.stage).shard_optimizer) {
      gather_sum_.push_back(collective::plan_all_gather(
          options.all_gather_algorithm, context,
          {{count, stride}, Dtype::fp32, {}, options.pipeline_depth, {"gradients", "backward"}}));
    }
  }
  if (groups.replicas) {
    across_.emplace(options, codecs, buckets_, groups, errors_, recorder, device);
  }
}

void GradientReduce::use(const std::vector<std::size_t>& choice) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    choice_[b] = choice[buckets_[b].segments.front().unit];
  }
  if (across_) across_->use(choice);
}

std::size_t GradientReduce::packing_bytes(std::size_t bucket) const {
  return packed(bucket) ? round_up(world_size_ * buckets_[bucket].count() * size_of(dtype(bucket)),
                                   std::size_t{256})
                        : 0;
}

void GradientReduce::copy_segments(std::size_t bucket, std::span<const View> gradients, View dense,
                                   bool pack, StreamHandle stream) const {
  const std::size_t count = buckets_[bucket].count();
  for (std::size_t rank = 0; rank < world_size_; ++rank) {
    std::size_t at = rank * count;
    for (const Segment& segment : buckets_[bucket].segments) {
      const View in_unit = gradients[segment.unit].part(
          rank * units_[segment.unit].shard + segment.offset, segment.count);
      const View in_dense = dense.part(at, segment.count);
      device_.memory_ops->copy(pack ? in_unit : in_dense, pack ? in_dense : in_unit, stream);
      at += segment.count;
    }
  }
}

void GradientReduce::start(std::size_t bucket, std::span<const View> gradients, View sum,
                           std::span<std::byte> workspace, StreamHandle stream, std::uint64_t key) {
  const std::size_t packing = packing_bytes(bucket);
  const Segment& first = buckets_[bucket].segments.front();
  View full = gradients[first.unit].part(first.offset, gradients[first.unit].count - first.offset);
  if (packed(bucket)) {
    full = {workspace.data(), world_size_ * buckets_[bucket].count(), dtype(bucket),
            device_.memory};
    copy_segments(bucket, gradients, full, true, stream);
  }
  if (largest_) {
    const std::size_t count = buckets_[bucket].count();
    const std::size_t stride = packed(bucket) ? count : units_[first.unit].shard;
    device_.optim->overflow(*largest_, world_size_, stride, count, full.as<float>(), stream);
  }
  reduce_[bucket][choice_[bucket]]->start(full, sum, workspace.subspan(packing), stream, key);
}

void GradientReduce::finish(std::size_t bucket, StreamHandle stream) {
  reduce_[bucket][choice_[bucket]]->finish(stream);
}

void GradientReduce::gather_sum(std::size_t bucket, ConstView sum, std::span<const View> gradients,
                                std::span<std::byte> workspace, StreamHandle stream) {
  const std::size_t packing = packing_bytes(bucket);
  const Segment& first = buckets_[bucket].segments.front();
  View full = gradients[first.unit].part(first.offset, gradients[first.unit].count - first.offset);
  if (packed(bucket)) {
    full = {workspace.data(), world_size_ * buckets_[bucket].count(), Dtype::fp32, device_.memory};
  }
  gather_sum_[bucket]->start(sum, full, workspace.subspan(packing), stream);
  gather_sum_[bucket]->finish(stream);
  if (packed(bucket)) copy_segments(bucket, gradients, full, false, stream);
}

void GradientReduce::add_volumes(Volumes& volumes) const {
  for (std::size_t b = 0; b < reduce_.size(); ++b) {
    volumes.reduce.push_back(volume(b, choice_[b]));
  }
  for (const auto& plan : gather_sum_) volumes.gather_sum.push_back(plan->volume());
  if (across_) across_->add_volumes(volumes);
}

void GradientReduce::add_messages(Volumes& messages) const {
  for (std::size_t b = 0; b < reduce_.size(); ++b) {
    messages.reduce.push_back(reduce_[b][choice_[b]]->messages());
  }
  for (const auto& plan : gather_sum_) messages.gather_sum.push_back(plan->messages());
  if (across_) across_->add_messages(messages);
}

std::vector<BucketMemory> GradientReduce::memory() const {
  std::vector<BucketMemory> memory;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    std::size_t workspace = 0;
    for (const auto& plan : reduce_[b]) workspace = std::max(workspace, plan->workspace_bytes());
    memory.push_back(
        {buckets_[b].count() * sizeof(float), packing_bytes(b) + workspace,
         gather_sum_.empty() ? 0 : packing_bytes(b) + gather_sum_[b]->workspace_bytes()});
  }
  if (across_) across_->add_memory(memory);
  return memory;
}

}  // namespace zeropp::zero
